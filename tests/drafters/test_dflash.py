"""dflash and what dspark shares with it: blocks by the formula, after any acceptance, in any company."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drafters.block_config import DFlashConfig
from drafters.block_model import load_block_model
from drafters.dflash import DFlash
from drafters.featured import INGEST_ROWS
from modeling.block_checkpoint import BLOCK_NETS
from protos.interfaces import AsyncDrafter, Drafter
from protos.messages import DraftChunk, DraftQuery
from protos.sampling_params import SamplingParams
from tests.drafters.block_drafters import build, by_formula, context, featured
from tests.drafters.contract import DrafterContract
from tests.fakes.block_nets import TINY, random_net
from tests.fakes.queries import GREEDY, query

REDUCED = tuple(range(200, 40, -2))
NOISY = SamplingParams(temperature=0.8, seed=7)
TEXT = tuple((7 * i) % 250 for i in range(40))


class FeaturedContract(DrafterContract):
    """The contract with queries that bring features."""

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


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("net")
    BLOCK_NETS.save(random_net(), folder)
    return folder


class TestDFlash(FeaturedContract):
    @pytest.fixture(autouse=True)
    def _checkpoints(self, checkpoint: Path, net: Path) -> None:
        self.target, self.net = checkpoint, net

    def make_drafter(self) -> Drafter:
        return build("dflash", self.net, self.target)


def draft(drafter: DFlash, text: tuple[int, ...], *, seen: int = 0, **options: Any) -> DraftChunk:
    (chunk,) = drafter.draft([featured(query(text, seen=seen, **options), text[:seen])])
    return chunk


@pytest.mark.parametrize("params", [GREEDY, NOISY, SamplingParams(temperature=1.5, seed=8)])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"draft_vocab": REDUCED},
        {"anchor_predicts": False},
        {"mask_token_id": 3, "num_layers": 1},
    ],
)
def test_drafts_follow_the_formula(
    checkpoint: Path, tmp_path: Path, changes: dict[str, Any], params: SamplingParams
) -> None:
    BLOCK_NETS.save(random_net(**changes), tmp_path)
    drafter = build("dflash", tmp_path, checkpoint)
    for length in (1, 2, 17, 40):
        tokens, survival = by_formula(tmp_path, checkpoint, TEXT[:length], params, 5)
        chunk = draft(drafter, TEXT[:length], request_id=str(length), params=params)
        assert (chunk.tokens, chunk.source) == (tuple(tokens), "dflash")
        np.testing.assert_allclose(chunk.survival, survival, rtol=1e-3)
        drafter.close(str(length))


def test_a_reduced_vocabulary_proposes_its_own_ids(checkpoint: Path, tmp_path: Path) -> None:
    BLOCK_NETS.save(random_net(draft_vocab=REDUCED), tmp_path)
    drafter = build("dflash", tmp_path, checkpoint)
    drawn = {token for n in range(2, 40) for token in draft(drafter, TEXT[:n], params=NOISY, request_id=str(n)).tokens}
    assert len(drawn) > 10
    assert drawn <= set(REDUCED)


def test_truncated_sampling(checkpoint: Path, net: Path) -> None:
    """What leaves one token leaves the best; what rules out none changes nothing."""
    drafter = build("dflash", net, checkpoint)

    def drawn(**params: Any) -> tuple[int, ...]:
        return draft(drafter, TEXT, params=SamplingParams(**({"temperature": 2, "seed": 5} | params))).tokens

    best, free = draft(drafter, TEXT).tokens, drawn()
    assert best != free
    for params in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        assert drawn(**params) == best
    for params in ({"top_k": 250}, {"top_p": 0.999999}, {"min_p": 1e-30}):
        assert drawn(**params) == free


def test_a_temperature_next_to_nothing_is_greedy(checkpoint: Path, net: Path) -> None:
    drafter = build("dflash", net, checkpoint)
    chunk = draft(drafter, TEXT, params=SamplingParams(temperature=1e-44, seed=5))
    assert chunk.tokens == draft(drafter, TEXT).tokens
    assert chunk.survival == (1.0,) * 5


def test_after_any_acceptance(checkpoint: Path, net: Path) -> None:
    """Features come in pieces; what was rejected leaves nothing."""
    drafter, fresh = build("dflash", net, checkpoint), build("dflash", net, checkpoint)
    text, seen = TEXT[:10], 0
    for accepted in (5, 0, 3, 1, 5, 2):
        chunk = draft(drafter, text, seen=seen)
        assert chunk.tokens == draft(fresh, text, request_id=str(len(text))).tokens
        fresh.close(str(len(text)))
        seen, text = len(text), (*text, *chunk.tokens[:accepted], 11)


def test_a_text_that_was_cut_and_went_on_differently(checkpoint: Path, net: Path) -> None:
    drafter = build("dflash", net, checkpoint)
    draft(drafter, TEXT[:20])
    turned = (*TEXT[:12], 1, 2, 3, 4)
    assert draft(drafter, turned, seen=12).tokens == draft(drafter, turned, request_id="fresh").tokens
    assert draft(drafter, turned[:9], seen=9).tokens == draft(drafter, turned[:9], request_id="short").tokens


def test_batch_draws_what_each_draws_alone(checkpoint: Path, net: Path) -> None:
    texts = [TEXT[:3], TEXT[5:25], TEXT[:1], TEXT[2:39]]
    params = [GREEDY, NOISY, SamplingParams(temperature=1, seed=3, top_k=20), SamplingParams(temperature=1, seed=4)]
    queries = [
        featured(query(text, request_id=str(i), budget=5 - i, params=own))
        for i, (text, own) in enumerate(zip(texts, params, strict=True))
    ]
    together = {chunk.request_id: chunk for chunk in build("dflash", net, checkpoint).draft(queries)}
    drafter = build("dflash", net, checkpoint)
    for one in queries:
        (alone,) = drafter.draft([one])
        assert together[one.request_id].tokens == alone.tokens
        assert len(alone.tokens) == one.budget
        np.testing.assert_allclose(together[one.request_id].survival, alone.survival, rtol=1e-3)


def test_same_request_twice_in_one_call(checkpoint: Path, net: Path) -> None:
    drafter = build("dflash", net, checkpoint)
    one, two = drafter.draft([featured(query(TEXT[:5])), featured(query(TEXT[:8], seen=5), TEXT[:5])])
    assert one.tokens == draft(drafter, TEXT[:5], request_id="a").tokens
    assert two.tokens == draft(drafter, TEXT[:8], request_id="b").tokens


def test_survival_falls_and_ends_a_draft(checkpoint: Path, net: Path) -> None:
    whole = draft(build("dflash", net, checkpoint), TEXT, params=NOISY)
    assert len(whole.tokens) == 5
    assert 1 >= whole.survival[0] > 0
    assert list(whole.survival) == sorted(whole.survival, reverse=True)
    cut = draft(build("dflash", net, checkpoint, min_survival=whole.survival[2]), TEXT, params=NOISY)
    assert cut.tokens == whole.tokens[:3]


def test_long_prompt_is_read_over_several_calls(checkpoint: Path, net: Path) -> None:
    text = tuple(i % 250 for i in range(2 * INGEST_ROWS + 200))
    drafter = build("dflash", net, checkpoint)
    whole = featured(query(text))
    for _ in range(2):  # a lost answer does not start the reading again
        (empty,) = drafter.draft([whole])
        assert (empty.tokens, empty.need_from, empty.error) == ((), None, "")
    longer = (*text, 4, 5)
    assert list(draft(drafter, longer, seen=len(text)).tokens) == by_formula(net, checkpoint, longer, GREEDY, 5)[0]


def test_one_call_reads_a_bounded_number_of_rows(checkpoint: Path, net: Path) -> None:
    """First come, first served; a request that only follows its own draft is never kept waiting."""
    drafter = build("dflash", net, checkpoint)
    draft(drafter, TEXT, request_id="s")
    texts = {name: (ord(name), *(i % 250 for i in range(INGEST_ROWS - 30))) for name in "ab"}
    asked = [featured(query(text, request_id=name)) for name, text in texts.items()]
    asked.append(featured(query((*TEXT, 1, 2), seen=len(TEXT), request_id="s"), TEXT))
    first = {chunk.request_id: chunk for chunk in drafter.draft(asked)}
    assert [len(first[name].tokens) for name in "abs"] == [5, 0, 5]
    assert draft(drafter, (*texts["b"], 7), seen=len(texts["b"]), request_id="b").tokens


def test_a_text_cut_while_it_is_read(checkpoint: Path, net: Path) -> None:
    text = tuple(i % 250 for i in range(INGEST_ROWS + 300))
    drafter = build("dflash", net, checkpoint)
    assert not draft(drafter, text).tokens
    cut = (*text[: INGEST_ROWS + 100], 9, 9, 9)
    chunk = draft(drafter, cut, seen=INGEST_ROWS + 100)
    assert list(chunk.tokens) == by_formula(net, checkpoint, cut, GREEDY, 5)[0]


def test_features_that_do_not_belong_to_the_tail(checkpoint: Path, net: Path) -> None:
    drafter = build("dflash", net, checkpoint)
    good = featured(query(TEXT[:5]))
    assert good.features is not None
    wrong: list[Any] = [None, good.features[1:], good.features[:, :8], np.zeros((4, TINY.hidden_size), np.float32)]
    for features in wrong:
        (chunk,) = drafter.draft([replace(good, features=features)])
        assert not chunk.tokens
        assert "a tail of 5 tokens from position 0" in chunk.error
        assert "(4, 32) in bfloat16" in chunk.error
    assert draft(drafter, TEXT[:5]).tokens


def test_more_requests_than_slots_and_a_full_slot(checkpoint: Path, net: Path) -> None:
    drafter = build("dflash", net, checkpoint, seqs=1)
    chunks = list(drafter.draft([featured(query(TEXT, request_id=name)) for name in "ab"]))
    assert [(bool(chunk.tokens), chunk.need_from) for chunk in chunks] == [(False, None), (True, None)]
    assert draft(drafter, (*TEXT, 1), seen=len(TEXT), request_id="b").need_from == 0
    full = tuple(i % 250 for i in range(4097))
    assert (draft(drafter, full).tokens, draft(drafter, full).need_from) == ((), None)


def test_ends_in_the_same_process_are_shared(checkpoint: Path, net: Path) -> None:
    embedding, lm_head = torch.randn(2, TINY.vocab_size, TINY.hidden_size)
    given = context(checkpoint, embedding=embedding, lm_head=lm_head)
    model = load_block_model(DFlashConfig(model=str(net), num_speculative_tokens=5), given)
    assert model.embedding is embedding
    hidden = torch.randn(2, 3, TINY.hidden_size)
    torch.testing.assert_close(model.head(hidden), hidden @ lm_head.T)
