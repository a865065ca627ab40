"""MarkovText: one endless text over a Markov target, with its transitions counted by draft position.

One request seed serves it all, so each round's randomness is the request's own at the next positions. The drafter is
such that a rejection leaves more than one token to the residual; faults there would not show otherwise.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable
from itertools import accumulate

import numpy as np
import torch
from scipy import stats

from modeling.noise import Stream, uniform
from modeling.sampling import TokenSampler
from protos.draft import Draft
from protos.sampling_params import SamplingParams
from tests.verifier.toy_target import draft_of
from verifier.acceptance import RatioNoise, accept_ratio

ROUNDS = 100_000
SEED = 2**62 + 12345
TARGET = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.25, 0.5, 0.25]])
DRAFTER = np.array([[0.2, 0.1, 0.7], [0.6, 0.1, 0.3], [0.1, 0.8, 0.1]])
SAME = np.tile([0.6, 0.3, 0.1], (3, 1))
OTHER = DRAFTER[0]
LOGITS = torch.tensor(TARGET).float().log()


class MarkovText:
    """A text whose next token depends on its last one, by `probs` [V, V], drawn with the request's own noise."""

    def __init__(self, probs: np.ndarray) -> None:
        self.probs = probs
        self.last, self.length, self.depth = 0, 1, 0
        self.draft: Draft = draft_of([])
        self.counts: Counter[tuple[int, int, int]] = Counter()

    def begin(self, draft: Draft) -> RatioNoise:
        self.draft, self.depth = draft, 0
        return RatioNoise(seed=SEED, start=self.length)

    def distribution(self, row: int) -> np.ndarray:
        return self.probs[self.last if row == 0 else self.draft.tokens[row - 1]]

    def draw(self, row: int) -> int:
        return pick(self.distribution(row), uniform(SEED, self.length, Stream.TOKEN))

    def emit(self, token: int) -> bool:
        self.counts[self.depth, self.last, token] += 1
        self.last, self.length, self.depth = token, self.length + 1, self.depth + 1
        return True

    def transitions(self) -> np.ndarray:
        """Counts [depth in the round, token before, token]."""
        counts = np.zeros((1 + max(depth for depth, _, _ in self.counts), *self.probs.shape), int)
        for place, count in self.counts.items():
            counts[place] = count
        return counts

    def assert_law(self, *, depths: int, probs: np.ndarray | None = None) -> None:
        transitions = self.transitions()
        assert len(transitions) == depths
        for counts in transitions:
            assert_transitions(counts, self.probs if probs is None else probs)


class RealText(MarkovText):
    """The same behind the real TokenSampler."""

    def __init__(self, params: SamplingParams) -> None:
        self.sampler = sampler_of(params)
        super().__init__(np.array([self.sampler.distribution(row) for row in LOGITS], np.float64))

    def draw(self, row: int) -> int:
        return self.sampler.draw(LOGITS[self.last], self.length)


def sampler_of(params: SamplingParams) -> TokenSampler:
    return TokenSampler(params, prompt_ids=(0,), stop_ids=(), vocab_size=3)


def pick(probs: np.ndarray, coin: float) -> int:
    reached = list(accumulate(probs.tolist()))
    return bisect(reached, coin * reached[-1])


def assert_transitions(counts: np.ndarray, probs: np.ndarray) -> None:
    """No token that cannot be, and a chi-square over all rows that have enough draws."""
    assert counts[probs == 0].sum() == 0
    statistic = freedom = 0.0
    for row, expected in zip(counts * 1.0, probs, strict=True):
        possible = expected > 0
        wanted = expected[possible] / expected.sum() * row.sum()
        if wanted.min() >= 5:
            statistic += (((row[possible] - wanted) ** 2) / wanted).sum()
            freedom += possible.sum() - 1
    assert freedom > 0
    assert stats.chi2.sf(statistic, freedom) > 1e-4


Proposal = tuple[Draft, list[np.ndarray | None]]
Propose = Callable[[MarkovText, list[float]], Proposal]


def play(text: MarkovText, propose: Propose, *, rounds: int = ROUNDS) -> float:
    """Many rounds of the ratio rule; `propose` gets fresh uniforms. Returns how often the first token was accepted."""
    accepted = 0
    for coins in np.random.default_rng(1).random((rounds, 5)).tolist():
        draft, proposals = propose(text, coins)
        noise = text.begin(draft)
        accepted += bool(accept_ratio(draft, text, noise, proposals=proposals).path)
    return accepted / rounds


def sampled_chain(text: MarkovText, coins: list[float]) -> Proposal:
    """Three tokens from DRAFTER."""
    tokens, proposals, last = [], [], text.last
    for coin in coins[:3]:
        proposals.append(DRAFTER[last])
        last = pick(DRAFTER[last], coin)
        tokens.append(last)
    return draft_of(tokens), proposals
