"""accept_match and accept_ratio on drafts of every shape: what they emit, where they stop, which rows they ask for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protos.draft import ANCHOR
from protos.sampling_params import SamplingParams
from tests.verifier.toy_target import ToyTarget, draft_of, random_tree
from verifier.acceptance import Acceptance, RatioNoise, accept_match, accept_ratio

SAMPLING = [
    {"temperature": 0.0},
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.3, "presence_penalty": 0.8, "frequency_penalty": 0.5, "repetition_penalty": 1.2},
    {"temperature": 0.0, "presence_penalty": 1.0, "frequency_penalty": 1.0},
    {"temperature": 0.0, "repetition_penalty": 1.5},
    {"temperature": 1.0, "logit_bias": {0: -100.0, 3: 2.0}, "min_tokens": 9},
    {"temperature": 1.0, "min_p": 0.1, "top_k": 4},
]


def target_of(sampling: dict, *, max_tokens: int = 24, stop_ids: frozenset[int] = frozenset()) -> ToyTarget:
    return ToyTarget(SamplingParams(seed=17, max_tokens=max_tokens, **sampling), stop_ids=stop_ids)


def plain_text(sampling: dict, **limits) -> list[int]:
    target = target_of(sampling, **limits)
    while not target.finished:
        target.verify(draft_of([]))
        target.emit(target.draw(0))
    return target.output


def assert_is_a_path(draft, result: Acceptance) -> None:
    """`path` goes from the root down, and the emitted tokens are the path's and at most one more."""
    assert [draft.parents[node] for node in result.path] == [ANCHOR, *result.path][: len(result.path)]
    assert result.tokens[: len(result.path)] == tuple(draft.tokens[node] for node in result.path)
    assert len(result.tokens) - len(result.path) in (0, 1)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SAMPLING), st.integers(0, 2**32), st.booleans(), st.sampled_from([frozenset(), frozenset({4})]))
def test_match_with_any_draft_gives_the_text_without_one(sampling, draft_seed, oracle, stop_ids):
    """S1, S3, S4, K2's logic: penalties, bias and min_tokens inside a draft are those of plain decoding."""
    expected = plain_text(sampling, stop_ids=stop_ids)
    target, rng = target_of(sampling, stop_ids=stop_ids), np.random.default_rng(draft_seed)
    while not target.finished:
        draft = random_tree(rng, nodes=int(rng.integers(0, 9)), vocab=target.vocab)
        if oracle:
            right = expected[len(target.output) :][: int(rng.integers(0, 6))]
            draft = draft_of([*right, *draft.tokens])
        target.verify(draft)
        result = accept_match(draft, target)
        assert_is_a_path(draft, result)
        assert target.drawn_rows == [0, *(node + 1 for node in result.path)][: len(result.tokens)]
    assert target.output == expected


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SAMPLING), st.integers(0, 2**32))
def test_ratio_emits_a_path_and_looks_at_no_row_beside_it(sampling, draft_seed):
    target, rng = target_of(sampling), np.random.default_rng(draft_seed)
    while not target.finished:
        draft = random_tree(rng, nodes=8, vocab=target.vocab)
        proposals = [None if rng.random() < 0.5 else rng.dirichlet(np.ones(target.vocab)) for _ in draft.tokens]
        target.verify(draft)
        result = accept_ratio(draft, target, RatioNoise(seed=17, start=len(target.text)), proposals=proposals)
        assert_is_a_path(draft, result)
        assert target.drawn_rows == [0, *(node + 1 for node in result.path)][: len(result.tokens)]
        if sampling.get("logit_bias"):
            assert 0 not in result.tokens


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("length", [2, 4, 8])
def test_rejected_drafts_leave_no_trace_in_the_penalties(sampling, length):
    """S1: one right token, then wrong ones, at each step."""
    expected, target = plain_text(sampling), target_of(sampling)
    while not target.finished:
        done = len(target.output)
        wrong = [(token + 1) % target.vocab for token in (expected[done + 1 :] + [0] * length)]
        draft = draft_of([expected[done], *wrong][:length])
        target.verify(draft)
        assert len(accept_match(draft, target).path) == 1
    assert target.output == expected


def test_a_wrong_draft_of_one_token_is_not_accepted():
    """C1: the first draft token is verified like the others."""
    expected, target = plain_text(SAMPLING[0]), target_of(SAMPLING[0])
    while not target.finished:
        draft = draft_of([(expected[len(target.output)] + 1) % target.vocab])
        target.verify(draft)
        assert accept_match(draft, target).path == ()
    assert target.output == expected


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 5, 7, 8, 9])
def test_a_draft_longer_than_the_text_may_be_is_cut_at_max_tokens(max_tokens):
    """E4: seven right tokens offered; exactly max_tokens come out, and no bonus after the last."""
    expected = plain_text(SAMPLING[1], max_tokens=24)
    target = target_of(SAMPLING[1], max_tokens=max_tokens)
    while not target.finished:
        draft = draft_of(expected[len(target.output) :][:7])
        target.verify(draft)
        result = accept_match(draft, target)
    assert target.output == expected[:max_tokens]
    if max_tokens <= 7:
        assert len(result.path) == len(result.tokens) == max_tokens


@pytest.mark.parametrize("accept", ["match", "ratio"])
def test_an_end_token_inside_the_draft_ends_the_text(accept):
    """E1: nothing is drawn or emitted after it, though the draft goes on and would be right."""
    expected = plain_text(SAMPLING[0])
    end = expected[3]
    target = target_of(SAMPLING[0], stop_ids=frozenset({end}))
    draft = draft_of(expected[:7])
    target.verify(draft)
    if accept == "match":
        result = accept_match(draft, target)
    else:
        result = accept_ratio(draft, target, RatioNoise(seed=17, start=2))
    cut = expected.index(end) + 1
    assert result == Acceptance(path=tuple(range(cut)), tokens=tuple(expected[:cut]))
    assert target.drawn_rows == list(range(cut))


def test_of_two_children_with_the_same_token_the_first_is_followed():
    expected = plain_text(SAMPLING[0])
    first, second = expected[:2]
    draft = draft_of([first, first, second, second], [ANCHOR, ANCHOR, 1, 0])
    target = target_of(SAMPLING[0])
    target.verify(draft)
    assert accept_match(draft, target).path == (0, 3)


def test_greedy_ratio_is_greedy_match():
    expected, target = plain_text(SAMPLING[0]), target_of(SAMPLING[0])
    rng = np.random.default_rng(3)
    while not target.finished:
        draft = draft_of([*expected[len(target.output) :][: int(rng.integers(3))], 5, 5, 5])
        target.verify(draft)
        accept_ratio(draft, target, RatioNoise(seed=17, start=len(target.text)))
    assert target.output == expected


def test_proposals_of_the_wrong_length_are_refused():
    target = target_of(SAMPLING[1])
    with pytest.raises(ValueError, match="1 proposals for 2 nodes"):
        accept_ratio(draft_of([1, 2]), target, RatioNoise(seed=1, start=2), proposals=[None])
