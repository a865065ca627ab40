"""eagle3 as a chain: drafts as a plain loop makes them, after any acceptance, in any company."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import drafters.eagle_drafter
from drafters.eagle_config import Eagle3Config
from drafters.eagle_model import load_eagle_model
from protos.interfaces import Drafter
from protos.sampling_params import SamplingParams
from tests.drafters.block_drafters import context, featured
from tests.drafters.eagle_drafters import Formula, build, draft, save
from tests.drafters.test_dflash import NOISY, REDUCED, TEXT, FeaturedContract
from tests.fakes.eagle_nets import EAGLE_31, TINY
from tests.fakes.queries import GREEDY, query


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("net"))


class TestEagle3(FeaturedContract):
    @pytest.fixture(autouse=True)
    def _checkpoints(self, checkpoint: Path, net: Path) -> None:
        self.target, self.net = checkpoint, net

    def make_drafter(self) -> Drafter:
        return build("eagle3", self.net, self.target)


@pytest.fixture
def short_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call reads 16 elements of long tails, 5 in a forward."""
    monkeypatch.setattr(drafters.eagle_drafter, "INGEST_ROWS", 16)
    monkeypatch.setattr(drafters.eagle_drafter, "PIECE_ROWS", 5)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"draft_vocab": REDUCED, "own_head": True},
        EAGLE_31 | {"draft_vocab": REDUCED},
        {"num_layers": 1, "own_head": True, "own_embedding": True},
    ],
)
def test_drafts_follow_the_plain_loop(checkpoint: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    drafter = build("eagle3", save(tmp_path, **changes), checkpoint)
    formula = Formula(tmp_path, checkpoint)
    for length, params in ((2, NOISY), (3, GREEDY), (17, GREEDY), (17, NOISY), (30, SamplingParams(seed=8))):
        chunk = draft(drafter, TEXT[:length], params=params)
        tokens, survival = formula.chain(TEXT[:length], params, 5)
        assert (chunk.tokens, chunk.source) == (tuple(tokens), "eagle3")
        assert chunk.parents == (-1, 0, 1, 2, 3)
        np.testing.assert_allclose(chunk.survival, survival, rtol=1e-3)
        drafter.close("r")


def test_ragged_tails_in_one_call(checkpoint: Path, net: Path) -> None:
    """Several requests, each of which got more or less since it was last asked, and with its own parameters."""
    drafter, formula = build("eagle3", net, checkpoint), Formula(net, checkpoint)
    params = {"a": GREEDY, "b": NOISY, "c": SamplingParams(temperature=1, seed=3), "d": GREEDY}
    rounds = [{"a": 3, "b": 9, "c": 2, "d": 25}, {"a": 4, "b": 15, "d": 27}, {"a": 10, "b": 15, "c": 8, "d": 28}]
    seen = dict.fromkeys(params, 0)
    for lengths in rounds:
        asked = []
        for name, length in lengths.items():
            text = tuple(ord(name) + token for token in TEXT)[:length]
            one = query([t % 250 for t in text], seen=seen[name], request_id=name, params=params[name])
            asked.append(featured(one, [t % 250 for t in text[: seen[name]]]))
            seen[name] = length
        for chunk in drafter.draft(asked):
            text = tuple((ord(chunk.request_id) + token) % 250 for token in TEXT)[: lengths[chunk.request_id]]
            tokens, survival = formula.chain(text, params[chunk.request_id], 5)
            assert chunk.tokens == tuple(tokens)
            np.testing.assert_allclose(chunk.survival, survival, rtol=1e-3)


def test_after_any_acceptance(checkpoint: Path, net: Path) -> None:
    """Features come in pieces; neither what was rejected nor what was accepted leaves a drafted row."""
    drafter, formula = build("eagle3", net, checkpoint), Formula(net, checkpoint)
    text, seen = TEXT[:10], 0
    for accepted in (5, 0, 3, 1, 5, 2):
        chunk = draft(drafter, text, seen=seen)
        assert list(chunk.tokens) == formula.chain(text, GREEDY, 5)[0]
        seen, text = len(text), (*text, *chunk.tokens[:accepted], 11)


def test_the_same_text_again(checkpoint: Path, net: Path) -> None:
    """With or without its last tokens, and with another budget: the state still has what it needs."""
    drafter = build("eagle3", net, checkpoint)
    whole = draft(drafter, TEXT[:20])
    for seen, budget in ((20, 8), (17, 8), (20, 2), (0, 3), (20, 4)):
        again = draft(drafter, TEXT[:20], seen=seen, budget=budget)
        assert again.tokens == whole.tokens[:budget]


def test_a_text_that_was_cut_and_went_on_differently(checkpoint: Path, net: Path) -> None:
    drafter, formula = build("eagle3", net, checkpoint), Formula(net, checkpoint)
    draft(drafter, TEXT[:20])
    turned = (*TEXT[:12], 1, 2, 3, 4)
    assert list(draft(drafter, turned, seen=12).tokens) == formula.chain(turned, GREEDY, 5)[0]
    repeated = (*turned[:14], 9)
    assert list(draft(drafter, repeated, seen=10).tokens) == formula.chain(repeated, GREEDY, 5)[0]


def test_a_text_that_was_only_cut_asks_for_its_last_token(checkpoint: Path, net: Path) -> None:
    """The feature that its draft begins with came with a token that was read two calls ago."""
    drafter, formula = build("eagle3", net, checkpoint), Formula(net, checkpoint)
    expected = formula.chain(TEXT[:9], GREEDY, 5)[0]
    draft(drafter, TEXT[:19])
    draft(drafter, TEXT[:20], seen=19)
    chunk = draft(drafter, TEXT[:9], seen=9)
    assert (chunk.tokens, chunk.need_from) == ((), 8)
    assert list(draft(drafter, TEXT[:9], seen=8).tokens) == expected
    assert list(draft(drafter, TEXT[:9], seen=9).tokens) == expected


def test_a_text_without_a_feature_has_no_draft(checkpoint: Path, net: Path) -> None:
    drafter = build("eagle3", net, checkpoint)
    chunk = draft(drafter, TEXT[:1])
    assert (chunk.tokens, chunk.need_from, chunk.error) == ((), None, "")
    assert draft(drafter, TEXT[:2], seen=1).tokens == draft(drafter, TEXT[:2], request_id="fresh").tokens != ()


def test_batch_draws_what_each_draws_alone(checkpoint: Path, net: Path) -> None:
    texts = [TEXT[:3], TEXT[5:25], TEXT[:2], TEXT[2:39]]
    params = [GREEDY, NOISY, SamplingParams(temperature=1, seed=3, top_k=20), SamplingParams(temperature=1, seed=4)]
    queries = [
        featured(query(text, request_id=str(i), budget=5 - i, params=own))
        for i, (text, own) in enumerate(zip(texts, params, strict=True))
    ]
    together = {chunk.request_id: chunk for chunk in build("eagle3", net, checkpoint).draft(queries)}
    drafter = build("eagle3", net, checkpoint)
    for one in queries:
        (alone,) = drafter.draft([one])
        assert together[one.request_id].tokens == alone.tokens
        assert len(alone.tokens) == one.budget
        np.testing.assert_allclose(together[one.request_id].survival, alone.survival, rtol=1e-3)


def test_survival_falls_and_ends_a_draft(checkpoint: Path, net: Path) -> None:
    whole = draft(build("eagle3", net, checkpoint), TEXT, params=NOISY)
    assert len(whole.tokens) == 5
    assert 1 >= whole.survival[0] > 0
    assert list(whole.survival) == sorted(whole.survival, reverse=True)
    for kept in (1, 3):
        cut = draft(build("eagle3", net, checkpoint, min_survival=whole.survival[kept - 1]), TEXT, params=NOISY)
        assert cut.tokens == whole.tokens[:kept]


@pytest.mark.usefixtures("short_reads")
def test_long_prompt_is_read_over_several_calls(checkpoint: Path, net: Path) -> None:
    drafter, formula = build("eagle3", net, checkpoint), Formula(net, checkpoint)
    whole = featured(query(TEXT))
    for _ in range(2):  # a lost answer does not start the reading again
        (empty,) = drafter.draft([whole])
        assert (empty.tokens, empty.need_from, empty.error) == ((), None, "")
    longer = (*TEXT, 4, 5)
    assert list(draft(drafter, longer, seen=len(TEXT)).tokens) == formula.chain(longer, GREEDY, 5)[0]


@pytest.mark.usefixtures("short_reads")
def test_one_call_reads_a_bounded_number_of_rows(checkpoint: Path, net: Path) -> None:
    """First come, first served; a request that only follows its own draft is never kept waiting."""
    drafter, formula = build("eagle3", net, checkpoint), Formula(net, checkpoint)
    draft(drafter, TEXT[:5], request_id="s")
    texts = {"a": TEXT[:14], "b": TEXT[20:33]}
    asked = [featured(query(text, request_id=name)) for name, text in texts.items()]
    asked.append(featured(query((*TEXT[:5], 1, 2), seen=5, request_id="s"), TEXT[:5]))
    first = {chunk.request_id: chunk for chunk in drafter.draft(asked)}
    assert [len(first[name].tokens) for name in "abs"] == [5, 0, 5]
    assert list(first["a"].tokens) == formula.chain(texts["a"], GREEDY, 5)[0]
    went_on = (*texts["b"], 7)
    assert list(draft(drafter, went_on, seen=13, request_id="b").tokens) == formula.chain(went_on, GREEDY, 5)[0]


@pytest.mark.usefixtures("short_reads")
def test_a_text_cut_while_it_is_read(checkpoint: Path, net: Path) -> None:
    drafter, formula = build("eagle3", net, checkpoint), Formula(net, checkpoint)
    assert not draft(drafter, TEXT).tokens
    for cut, seen in (((*TEXT[:22], 9, 9), 22), ((*TEXT[:22], 9), 23), ((*TEXT[:7], 8), 7)):
        chunk = draft(drafter, cut, seen=seen)
        assert list(chunk.tokens) == formula.chain(cut, GREEDY, 5)[0]


def test_features_that_do_not_belong_to_the_tail(checkpoint: Path, net: Path) -> None:
    drafter = build("eagle3", net, checkpoint)
    good = featured(query(TEXT[:5]))
    (chunk,) = drafter.draft([replace(good, features=None)])
    assert not chunk.tokens
    assert "a tail of 5 tokens from position 0" in chunk.error
    assert draft(drafter, TEXT[:5]).tokens


def test_more_requests_than_slots(checkpoint: Path, net: Path) -> None:
    drafter = build("eagle3", net, checkpoint, seqs=1)
    chunks = list(drafter.draft([featured(query(TEXT, request_id=name)) for name in "ab"]))
    assert [(bool(chunk.tokens), chunk.need_from) for chunk in chunks] == [(False, None), (True, None)]
    assert draft(drafter, (*TEXT, 1), seen=len(TEXT), request_id="b").need_from == 0


@pytest.mark.parametrize(
    ("method", "changes", "keys", "message"),
    [
        ("p_eagle", {}, {}, "has no slots, it drafts token by token; use method eagle3"),
        ("eagle3", {"slots": "mask", "num_slots": 4}, {}, "drafts 4 tokens in one forward; use method p_eagle"),
        (
            "p_eagle",
            {"slots": "fused", "num_slots": 4},
            {},
            "is 5, but one forward of .* drafts 4",
        ),
        ("eagle3", {"hidden_size": 64}, {}, "hidden_size 64, but that of .* is 32"),
        ("eagle3", {"feature_layers": (0, 1)}, {}, "reads target layer 1, but .* has 1 layers"),
        ("eagle3", {}, {"draft_kv_cache_gib": 0.001}, "draft_kv_cache_gib"),
    ],
)
def test_refusals(
    checkpoint: Path, tmp_path: Path, method: str, changes: dict[str, Any], keys: dict[str, Any], message: str
) -> None:
    save(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        build(method, tmp_path, checkpoint, **keys)


def test_ends_in_the_same_process_are_shared(checkpoint: Path, net: Path) -> None:
    embedding, lm_head = torch.randn(2, TINY.vocab_size, TINY.hidden_size)
    given = context(checkpoint, embedding=embedding, lm_head=lm_head)
    model = load_eagle_model(Eagle3Config(model=str(net)), given)
    assert model.embedding is embedding
    hidden = torch.randn(2, 3, TINY.hidden_size)
    torch.testing.assert_close(model.head(hidden), hidden @ lm_head.T)
