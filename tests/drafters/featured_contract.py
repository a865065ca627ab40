"""FeaturedContract: what the drafters that read the target's features owe besides the contract of all drafters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.harness.tiny import VOCAB_SIZE
from drafters.registry import build_drafter, parse_config
from protos.interfaces import AsyncDrafter, Drafter
from protos.messages import DraftChunk, DraftQuery, Tokens
from protos.sampling_params import SamplingParams
from tests.drafters.contract import DrafterContract
from tests.drafters.featured import NOISY, TEXT, Expected, context, draft, featured
from tests.fakes.queries import GREEDY, query

SAMPLED = (GREEDY, NOISY, SamplingParams(temperature=1, seed=3, top_k=20), SamplingParams(temperature=1, seed=4))


class FeaturedQueries(DrafterContract):
    """The contract of all drafters with queries that bring features."""

    @pytest.fixture(autouse=True)
    def _texts(self) -> None:
        self.texts: dict[str, list[int]] = {}

    def ask(self, drafter: AsyncDrafter, *queries: DraftQuery) -> dict[str, list[DraftChunk]]:
        return super().ask(drafter, *map(self._featured, queries))

    def _featured(self, query: DraftQuery) -> DraftQuery:
        text = self.texts.setdefault(query.request_id, [])
        text += [0] * (query.tail_start - len(text))
        text[query.tail_start :] = query.tail
        return featured(query, text[: query.tail_start])


class FeaturedContract(FeaturedQueries):
    """For drafters of chains. `method` is the drafter's, over the weights of a fixture `net`; `by_formula` tells what
    it must draft after a text, computed some plain way from the same weights."""

    method: str

    @pytest.fixture(autouse=True)
    def _checkpoints(self, checkpoint: Path, net: Path) -> None:
        self.target, self.net = checkpoint, net

    @pytest.fixture
    def short_reads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One call reads 16 features of long tails, EAGLE nets 5 in a forward."""
        for module in ("dflash", "eagle_drafter"):
            monkeypatch.setattr(f"drafters.{module}.INGEST_ROWS", 16)
        monkeypatch.setattr("drafters.eagle_drafter.PIECE_ROWS", 5)

    def by_formula(self, text: Tokens, params: SamplingParams = GREEDY) -> Expected:
        """Tokens and survival of a draft of five."""
        raise NotImplementedError

    def make_drafter(self, *, told: dict[str, Any] | None = None, **keys: Any) -> Drafter:
        """told: what the context has instead of the tests' own."""
        given = {"method": self.method, "model": str(self.net), "num_speculative_tokens": 5}
        return build_drafter(parse_config(given | keys), context(self.target, **(told or {})))

    def test_after_any_acceptance(self) -> None:
        """Features come in pieces; neither what was rejected nor what was accepted leaves anything of a draft."""
        drafter = self.make_drafter()
        text, seen = TEXT[:10], 0
        for accepted in (5, 0, 3, 1, 5, 2):
            chunk = draft(drafter, text, seen=seen)
            assert list(chunk.tokens) == self.by_formula(text)[0]
            seen, text = len(text), (*text, *chunk.tokens[:accepted], 11)

    def test_ragged_tails_in_one_call(self) -> None:
        """Requests with parameters of their own; each got more or less, or nothing, since it was last asked."""
        drafter = self.make_drafter()
        texts = {"a": TEXT[:3], "b": TEXT[3:12], "c": TEXT[5:7], "d": TEXT[10:35]}
        params = dict(zip(texts, SAMPLED[:2] + SAMPLED[3:] + SAMPLED[:1], strict=True))
        seen = dict.fromkeys(texts, 0)
        for news in ({"a": 5, "b": 0, "c": 2, "d": 1}, {"a": 1, "b": 9, "d": 0}, {"a": 0, "b": 0, "c": 0, "d": 0}):
            asked = [
                featured(
                    query(texts[name], seen=seen[name], request_id=name, params=params[name]), texts[name][: seen[name]]
                )
                for name in news
            ]
            for chunk in drafter.draft(asked):
                name, text = chunk.request_id, texts[chunk.request_id]
                tokens, survival = self.by_formula(text, params[name])
                assert list(chunk.tokens) == tokens
                np.testing.assert_allclose(chunk.survival, survival, rtol=1e-3)
                seen[name], texts[name] = len(text), (text + chunk.tokens + TEXT)[: len(text) + news[name]]

    def test_the_same_text_again(self) -> None:
        """With or without its last tokens, and with another budget: the state still has what it needs."""
        drafter = self.make_drafter()
        whole = draft(drafter, TEXT[:20])
        assert len(whole.tokens) == 5
        for seen, budget in ((20, 8), (17, 8), (20, 2), (0, 3), (20, 4)):
            assert draft(drafter, TEXT[:20], seen=seen, budget=budget).tokens == whole.tokens[:budget]

    def test_a_text_that_was_cut_and_went_on_differently(self) -> None:
        drafter = self.make_drafter()
        draft(drafter, TEXT[:20])
        turned = (*TEXT[:12], 1, 2, 3, 4)
        assert list(draft(drafter, turned, seen=12).tokens) == self.by_formula(turned)[0]
        repeated = (*turned[:14], 9)
        assert list(draft(drafter, repeated, seen=10).tokens) == self.by_formula(repeated)[0]

    def test_batch_draws_what_each_draws_alone(self) -> None:
        texts = [TEXT[:3], TEXT[5:25], TEXT[:2], TEXT[2:39]]
        queries = [
            featured(query(text, request_id=str(i), budget=5 - i, params=own))
            for i, (text, own) in enumerate(zip(texts, SAMPLED, strict=True))
        ]
        together = {chunk.request_id: chunk for chunk in self.make_drafter().draft(queries)}
        drafter = self.make_drafter()
        for one in queries:
            (alone,) = drafter.draft([one])
            assert together[one.request_id].tokens == alone.tokens
            assert len(alone.tokens) == one.budget
            np.testing.assert_allclose(together[one.request_id].survival, alone.survival, rtol=1e-3)

    def test_same_request_twice_in_one_call(self) -> None:
        one, two = self.make_drafter().draft([featured(query(TEXT[:5])), featured(query(TEXT[:8], seen=5), TEXT[:5])])
        assert list(one.tokens) == self.by_formula(TEXT[:5])[0]
        assert list(two.tokens) == self.by_formula(TEXT[:8])[0]

    def test_survival_falls_and_ends_a_draft(self) -> None:
        whole = draft(self.make_drafter(), TEXT, params=NOISY)
        assert len(whole.tokens) == 5
        assert 1 >= whole.survival[0] > 0
        assert list(whole.survival) == sorted(whole.survival, reverse=True)
        for kept in (1, 3):
            cut = draft(self.make_drafter(min_survival=whole.survival[kept - 1]), TEXT, params=NOISY)
            assert cut.tokens == whole.tokens[:kept]

    @pytest.mark.usefixtures("short_reads")
    def test_long_prompt_is_read_over_several_calls(self) -> None:
        drafter = self.make_drafter()
        whole = featured(query(TEXT))
        for _ in range(2):  # a lost answer does not start the reading again
            (empty,) = drafter.draft([whole])
            assert (empty.tokens, empty.need_from, empty.error) == ((), None, "")
        longer = (*TEXT, 4, 5)
        assert list(draft(drafter, longer, seen=len(TEXT)).tokens) == self.by_formula(longer)[0]

    @pytest.mark.usefixtures("short_reads")
    def test_one_call_reads_a_bounded_number_of_rows(self) -> None:
        """First come, first served; a request that only follows its own draft is never kept waiting."""
        drafter = self.make_drafter()
        draft(drafter, TEXT[:5], request_id="s")
        texts = {"a": TEXT[:14], "b": TEXT[20:33]}
        asked = [featured(query(text, request_id=name)) for name, text in texts.items()]
        asked.append(featured(query((*TEXT[:5], 1, 2), seen=5, request_id="s"), TEXT[:5]))
        first = {chunk.request_id: chunk for chunk in drafter.draft(asked)}
        assert [len(first[name].tokens) for name in "abs"] == [5, 0, 5]
        assert list(first["a"].tokens) == self.by_formula(texts["a"])[0]
        went_on = (*texts["b"], 7)
        assert list(draft(drafter, went_on, seen=13, request_id="b").tokens) == self.by_formula(went_on)[0]

    @pytest.mark.usefixtures("short_reads")
    def test_a_text_cut_while_it_is_read(self) -> None:
        drafter = self.make_drafter()
        assert not draft(drafter, TEXT).tokens
        for cut, seen in (((*TEXT[:22], 9, 9), 22), ((*TEXT[:22], 9), 23), ((*TEXT[:7], 8), 7)):
            assert list(draft(drafter, cut, seen=seen).tokens) == self.by_formula(cut)[0]

    def test_features_that_do_not_belong_to_the_tail(self) -> None:
        drafter = self.make_drafter()
        good = featured(query(TEXT[:5]))
        assert good.features is not None
        wrong: list[Any] = [None, good.features[1:], good.features[:, :8], np.zeros(good.features.shape, np.float32)]
        for features in wrong:
            (chunk,) = drafter.draft([replace(good, features=features)])
            assert not chunk.tokens
            assert "a tail of 5 tokens from position 0" in chunk.error
            assert "(4, 32) in bfloat16" in chunk.error
        assert draft(drafter, TEXT[:5]).tokens

    def test_more_requests_than_slots_and_a_full_slot(self) -> None:
        drafter = self.make_drafter(told={"max_num_seqs": 1, "max_model_len": 64})
        chunks = list(drafter.draft([featured(query(TEXT, request_id=name)) for name in "ab"]))
        assert [(bool(chunk.tokens), chunk.need_from) for chunk in chunks] == [(False, None), (True, None)]
        assert draft(drafter, (*TEXT, 1), seen=len(TEXT), request_id="b").need_from == 0
        assert draft(drafter, (TEXT + TEXT)[:64]).tokens
        for seen in (64, 0):
            full = draft(drafter, (TEXT + TEXT)[:65], seen=seen)
            assert (full.tokens, full.need_from, full.error) == ((), None, "")

    def test_ends_in_the_same_process_are_shared(self) -> None:
        embedding, lm_head = torch.randn(2, VOCAB_SIZE, 32)
        drafter: Any = self.make_drafter(told={"embedding": embedding, "lm_head": lm_head})
        model, hidden = drafter._model, torch.randn(2, 3, 32)
        assert model.embedding is embedding
        ids = model.net.target_ids(torch.arange(model.net.config.draft_vocab_size))
        torch.testing.assert_close(model.head(hidden), hidden @ lm_head[ids].T)
