"""The law of emitted tokens: chi-square against the target's distribution, at each draft position."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from protos.sampling_params import SamplingParams
from tests.verifier.markov_text import (
    DRAFTER,
    LOGITS,
    OTHER,
    ROUNDS,
    SAME,
    SEED,
    TARGET,
    MarkovText,
    Proposal,
    RealText,
    assert_transitions,
    pick,
    play,
    sampled_chain,
    sampler_of,
)
from tests.verifier.toy_target import draft_of
from verifier.acceptance import RatioNoise, accept_match, accept_ratio


def test_ratio_chain_follows_the_target_at_each_position():
    """C5: with p against q, not p against its own maximum; acceptance is the overlap of p and q."""
    text = MarkovText(TARGET)
    accepted = play(text, sampled_chain)
    text.assert_law(depths=4)
    tested = text.transitions()[0].sum(axis=1)
    overlap = (np.minimum(TARGET, DRAFTER).sum(axis=1) * tested).sum() / ROUNDS
    assert accepted == pytest.approx(overlap, abs=0.006)


def test_ratio_of_one_token_gives_the_classical_example():
    """C5's numbers: p = (.6, .3, .1), q = (.2, .3, .5)."""
    text, proposal = MarkovText(SAME), np.array([0.2, 0.3, 0.5])
    play(text, lambda _, coins: (draft_of([pick(proposal, coins[0])]), [proposal]))
    text.assert_law(depths=2)


def test_one_request_seed_for_drafter_and_target_is_no_bias():
    """C6: the drafter draws with the request's own seed through the real sampler, so does the target.

    Acceptance and residual have their own streams, or 10/60/30 would come out as 10/63/27.
    """
    params = SamplingParams(seed=SEED)
    drafting, text = sampler_of(params), RealText(params)
    draft_logits = torch.tensor(DRAFTER).float().log()
    distributions = [drafting.distribution(row) for row in draft_logits]

    def propose(text: MarkovText, _: list[float]) -> Proposal:
        first = drafting.draw(draft_logits[text.last], text.length)
        second = drafting.draw(draft_logits[first], text.length + 1)
        return draft_of([first, second]), [distributions[text.last], distributions[first]]

    play(text, propose, rounds=20_000)
    text.assert_law(depths=3, probs=TARGET)


def test_siblings_drawn_with_replacement_are_no_bias():
    """C13: two candidates from the same q, perhaps the same token twice, then one more under each."""

    def propose(_: MarkovText, coins: list[float]) -> Proposal:
        return draft_of([pick(OTHER, coin) for coin in coins[:4]], [-1, -1, 0, 1]), [OTHER] * 4

    text = MarkovText(TARGET)
    play(text, propose)
    text.assert_law(depths=3)


def test_siblings_drawn_without_replacement_are_no_bias():
    """C13: the second candidate's distribution is what the first one left of q."""
    left = [np.where(np.arange(3) == first, 0, OTHER) / (1 - OTHER[first]) for first in range(3)]

    def propose(_: MarkovText, coins: list[float]) -> Proposal:
        first = pick(OTHER, coins[0])
        return draft_of([first, pick(left[first], coins[1])], [-1, -1]), [OTHER, left[first]]

    text = MarkovText(TARGET)
    play(text, propose)
    text.assert_law(depths=2)


@pytest.mark.parametrize("tokens", [[0, 1], [1, 2], [2, 2]])
def test_two_paths_of_a_cache_are_no_bias(tokens):
    """C13, C14: candidates that are functions of the context; each is accepted with the target's probability."""
    text = MarkovText(SAME)
    draft = draft_of([*tokens, 0, 1], [-1, -1, 0, 1])
    accepted = play(text, lambda *_: (draft, [None] * 4), rounds=20_000)
    text.assert_law(depths=3)
    assert accepted == pytest.approx(SAME[0][list(set(tokens))].sum(), abs=0.014)


def test_a_tree_of_both_kinds_follows_the_target_at_each_position():
    """A cached candidate first, a sampled one beside it, a sampled one under each."""

    def propose(_: MarkovText, coins: list[float]) -> Proposal:
        drawn = [pick(OTHER, coin) for coin in coins[:3]]
        return draft_of([1, *drawn], [-1, -1, 0, 1]), [None, OTHER, OTHER, OTHER]

    text = MarkovText(TARGET)
    play(text, propose)
    text.assert_law(depths=3)


def test_a_nearly_impossible_candidate_is_nearly_never_accepted():
    """C8: an adversary that always proposes a token of probability .001."""
    text = MarkovText(np.tile([0.6, 0.399, 0.001], (3, 1)))
    accepted = play(text, lambda *_: (draft_of([2]), [None]), rounds=30_000)
    assert accepted < 0.002
    assert_transitions(text.transitions()[0], text.probs)


def test_drafts_that_end_untested_end_with_the_targets_own_draw():
    """Lengths that do not look at the tokens are no bias: at the cut the target draws, not a residual."""

    def propose(text: MarkovText, coins: list[float]) -> Proposal:
        length = int(coins[4] * 4)
        draft, proposals = sampled_chain(text, coins)
        return draft.take(length), proposals[:length]

    text = MarkovText(TARGET)
    play(text, propose)
    text.assert_law(depths=4)


@pytest.mark.parametrize(("anticipating", "expected"), [(True, 0.85), (False, 0.70)])
def test_a_scheduler_that_looks_at_the_sampled_token_is_biased(anticipating, expected):
    """C7: why the scheduler must not anticipate; the counter-example of DSpark's appendix A.

    Survival of the second token is .9 after an A and 0 otherwise, so the best length tells which token was drawn.
    """
    speed, proposal = (1.0, 0.5, 0.45), np.array([0.5, 0.5])

    def best_length(second_survives: float) -> int:
        survival = (0.0, 0.8, 0.8 * second_survives)
        return max(range(3), key=lambda n: (1 + sum(survival[: n + 1])) * speed[n])

    def propose(_: MarkovText, coins: list[float]) -> Proposal:
        tokens = [pick(proposal, coin) for coin in coins[:2]]
        length = best_length(0.9 if tokens[0] == 0 or not anticipating else 0.0)
        return draft_of(tokens[:length]), [proposal] * length

    text = MarkovText(np.tile([0.7, 0.3], (2, 1)))
    play(text, propose, rounds=30_000)
    first = text.transitions()[0].sum(axis=0)
    assert first[0] / first.sum() == pytest.approx(expected, abs=0.0075)


@pytest.mark.parametrize("rule", ["match", "ratio"])
@pytest.mark.parametrize("limits", [{"temperature": 0.5}, {"temperature": 1.5}, {"top_k": 2}])
def test_processing_holds_at_every_draft_position(rule, limits):
    """C9, C10: a drafter that ignores the parameters; the text is drawn from the processed target all the same."""
    text = RealText(SamplingParams(seed=SEED, **limits))
    for coins in np.random.default_rng(5).random((10_000, 3)).tolist():
        draft, proposals = sampled_chain(text, coins)
        noise = text.begin(draft)
        if rule == "match":
            accept_match(draft, text)
        else:
            accept_ratio(draft, text, noise, proposals=proposals)
    if "top_k" in limits:
        text.assert_law(depths=4)
        assert ((text.transitions() > 0).sum(axis=2) == 2).all()
    else:
        text.assert_law(depths=4, probs=(LOGITS / limits["temperature"]).softmax(-1).double().numpy())


def test_a_rejection_that_only_rounding_explains_leaves_the_target():
    """No residual mass: p and q are equal, so the draw is from p rather than from a division by nothing."""

    class Unlucky(RatioNoise):
        def uniform(self, depth: int, attempt: int) -> float:
            return 1 - 2.0**-30

    text = MarkovText(SAME)
    for _ in range(5000):
        text.begin(draft_of([0]))
        noise = Unlucky(seed=SEED, start=text.length)
        result = accept_ratio(draft_of([0]), text, noise, proposals=[SAME[0] * (1 + 2.0**-29)])
        assert result.path == ()
    text.assert_law(depths=1)
