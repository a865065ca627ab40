"""Features: what the target shows of an example: the outputs of a few layers, and its law of each next token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from drafters.training.answers import Example
from modeling.target import Target
from modeling.work import Forward, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Of one example of n tokens, whose answer begins at p.

    taps: [n - 1, m * hidden] in bf16, the outputs of m layers side by side for each token but the last.
    law_ids (int32), law_probs (fp16): [n - 1 - p, K], the K likeliest tokens after each answer token but the last, with
    their probabilities at temperature 1; row i is the law of token p + 1 + i.
    """

    taps: torch.Tensor
    law_ids: torch.Tensor
    law_probs: torch.Tensor


class FeatureSource(Protocol):
    """Anything that has features: the target itself, or what was kept of it."""

    def __call__(self, examples: Sequence[Example]) -> list[Features]: ...


class TargetFeatures:
    """Computes features by packed forwards of whole examples, on the target's device; they come back on the CPU."""

    def __init__(self, target: Target, layers: tuple[int, ...], *, law_size: int) -> None:
        self.target = target
        self.layers = layers
        self.law_size = min(law_size, target.vocab_size)

    def __call__(self, examples: Sequence[Example]) -> list[Features]:
        """One for each example, in order; returns when the forwards are done."""
        most = self.target.runner.num_slots
        return [
            features
            for start in range(0, len(examples), most)
            for features in self._forward(examples[start : start + most])
        ]

    def _forward(self, examples: Sequence[Example]) -> Iterator[Features]:
        works = [
            Work(slot=slot, start=0, tokens=each.tokens[:-1], num_logits=len(each.tokens) - 1 - each.prompt_len)
            for slot, each in enumerate(examples)
        ]
        forward = self.target.runner.forward(works, taps=self.layers)
        return self._by_work(works, forward)

    def _by_work(self, works: Sequence[Work], forward: Forward) -> Iterator[Features]:
        """Leaves inference mode behind: what comes out may enter a computation with gradients."""
        row = logit = 0
        for work in works:
            rows = [tap[row : row + len(work.tokens)] for tap in forward.taps]
            taps = torch.cat(rows, dim=-1) if rows else torch.empty(len(work.tokens), 0)
            ids, probs = law(forward.logits[logit : logit + work.num_logits], self.law_size)
            yield Features(taps=taps.to(torch.bfloat16).cpu(), law_ids=ids.cpu(), law_probs=probs.cpu())
            row, logit = row + len(work.tokens), logit + work.num_logits


def law(logits: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `size` likeliest tokens (int32) of each row of logits [r, V], and their probabilities (fp16), [r, size]."""
    exact = logits.float()
    likeliest, ids = exact.topk(size, dim=-1)
    probs = (likeliest - exact.logsumexp(dim=-1, keepdim=True)).exp()
    return ids.to(torch.int32), probs.to(torch.float16)


def feature_layers(num_layers: int, count: int) -> tuple[int, ...]:
    """`count` layers evenly spread from the second to the third last, as DFlash taps them (arXiv 2602.06036); fewer
    where the target is too shallow for so many."""
    if count == 0:
        return ()
    first, last = min(1, num_layers - 1), max(num_layers - 3, 0)
    if count == 1 or last <= first:
        return (max(first, last),)
    return tuple(sorted({round(first + (last - first) * i / (count - 1)) for i in range(count)}))
