"""HeldOut: how long drafts would live on answers that are not trained on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from drafters.training.anchors import spread_anchors
from drafters.training.answers import Example
from drafters.training.blocks import Batch, make_batch
from drafters.training.features import Features, FeatureSource
from drafters.training.losses import LOSSES, Scores
from drafters.training.recipe import Recipe
from drafters.training.trainee import Trainee

ANCHORS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """accepted_length: tokens a verification emits, its own included, if the likeliest drafts are compared with the
    answer, which is what the engine does. expected_length: 1 + Σ_k Π_{i≤k} α_i with α = Σ min(p, q) over the law's
    tokens, for drafts drawn at temperature 1; a lower bound. by_position: acceptance of the k-th draft where those
    before it were accepted. by_domain: accepted_length of each."""

    loss: float
    accepted_length: float
    expected_length: float
    by_position: tuple[float, ...]
    by_domain: dict[str, float]


@dataclass(slots=True, kw_only=True)
class _Tally:
    """Sums over blocks. accepted: how many had their first k drafts accepted, for each k."""

    blocks: int = 0
    accepted: list[float] = field(default_factory=list)
    expected: float = 0.0

    def add(self, hit: torch.Tensor, overlap: torch.Tensor) -> None:
        """hit, overlap: [blocks, P]."""
        reached = hit.long().cumprod(-1).sum(0).tolist()
        self.accepted = [a + b for a, b in zip(self.accepted or [0.0] * len(reached), reached, strict=True)]
        self.expected += float(overlap.cumprod(-1).sum())
        self.blocks += len(hit)

    @property
    def length(self) -> float:
        return 1 + sum(self.accepted) / self.blocks

    @property
    def by_position(self) -> tuple[float, ...]:
        before = [float(self.blocks), *self.accepted]
        return tuple(now / max(then, 1.0) for then, now in zip(before, self.accepted, strict=False))


class HeldOut:
    """Its features are computed once and stay in memory. Answers shorter than a block have no part in it."""

    def __init__(self, examples: Sequence[Example], source: FeatureSource, recipe: Recipe, *, predictions: int) -> None:
        self._recipe = recipe
        self._predictions = predictions
        self._source = source
        self._anchors = {each.key: spread_anchors(each, ANCHORS, predictions) for each in examples}
        self._examples = [each for each in examples if len(self._anchors[each.key])]
        self._features: dict[str, Features] = {}
        if not self._examples:
            raise ValueError(
                f"no held-out answer is longer than the {predictions} tokens that a block predicts; "
                "give longer answers, or a smaller block_size"
            )

    @torch.no_grad()
    def figures(self, trainee: Trainee, device: torch.device) -> Figures:
        """What the net gets right now, in gradient-free forwards over all the answers; takes seconds to minutes."""
        tallies: dict[str, _Tally] = defaultdict(_Tally)
        loss = weight = 0.0
        for examples, batch in self._batches():
            scores = trainee(batch.to(device))
            sums = scores.weighted(LOSSES[self._recipe.method], self._recipe.decay)
            loss, weight = loss + float(sums[0]), weight + float(sums[1])
            _count(tallies, examples, scores, batch.valid)
        whole = tallies.pop("")
        return Figures(
            loss=loss / weight,
            accepted_length=whole.length,
            expected_length=1 + whole.expected / whole.blocks,
            by_position=whole.by_position,
            by_domain={name: tallies[name].length for name in sorted(tallies)},
        )

    def _batches(self) -> Iterator[tuple[Sequence[Example], Batch]]:
        for start in range(0, len(self._examples), self._recipe.batch):
            examples = self._examples[start : start + self._recipe.batch]
            new = [each for each in examples if each.key not in self._features]  # the same answer may come twice
            if new:
                found = self._source(new)
                self._features |= {each.key: features for each, features in zip(new, found, strict=True)}
            features = [self._features[each.key] for each in examples]
            anchors = [self._anchors[each.key] for each in examples]
            yield examples, make_batch(examples, features, anchors, predictions=self._predictions)


def _count(tallies: dict[str, _Tally], examples: Sequence[Example], scores: Scores, valid: torch.Tensor) -> None:
    """Adds to the tally of each domain, and to that of all, named by nothing."""
    for row, example in enumerate(examples):
        whole = valid[row].all(-1).to(scores.hit.device)
        hit, overlap = scores.hit[row][whole], scores.overlap[row][whole]
        for name in {"", example.domain}:
            tallies[name].add(hit, overlap)
