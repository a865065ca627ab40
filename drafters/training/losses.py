"""Losses: how far a drafter's law q is from the target's law p, and what becomes of its drafts.

dflash is trained on the answers' own tokens (arXiv 2602.06036). dspark is trained on the target's laws and a little on
the tokens, and its confidence head on the probability that a draft is accepted (arXiv 2607.05147, section 3.3).
eagle3, p_eagle and a draft model learn by the Kullback-Leibler divergence (arXiv 2503.01840, 2602.01469, 2310.08461),
which differs from the cross-entropy of both laws by what the drafter cannot change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812

from drafters.training.blocks import Batch
from drafters.training.reading import Reading

LEAST_OTHERS = 1e-6  # of q; below, 1 - Σ q is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWeights:
    """What each part counts. distance is the whole L1 distance of p and q, at most 2; divergence is KL(p, q)."""

    cross_entropy: float
    distance: float
    confidence: float
    divergence: float = 0.0


LOSSES = {
    "dflash": LossWeights(cross_entropy=1.0, distance=0.0, confidence=0.0),
    "dspark": LossWeights(cross_entropy=0.1, distance=0.9, confidence=1.0),
    "eagle3": LossWeights(cross_entropy=0.0, distance=0.0, confidence=0.0, divergence=1.0),
    "p_eagle": LossWeights(cross_entropy=0.0, distance=0.0, confidence=0.0, divergence=1.0),
    "draft_model": LossWeights(cross_entropy=0.1, distance=0.0, confidence=0.0, divergence=0.9),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What the drafter should have said, in draft ids; V' stands for every token that cannot be drafted.

    labels, valid: [..., P]. law_ids, law_probs: [..., P, K], the target's K likeliest tokens.
    """

    labels: torch.Tensor
    law_ids: torch.Tensor
    law_probs: torch.Tensor
    valid: torch.Tensor

    @classmethod
    def of(cls, batch: Batch, draft_ids: Callable[[torch.Tensor], torch.Tensor]) -> Truth:
        """`draft_ids` turns target ids into draft ids."""
        return cls(
            labels=draft_ids(batch.labels),
            law_ids=draft_ids(batch.law_ids),
            law_probs=batch.law_probs,
            valid=batch.valid,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Of each prediction, [..., P]. cross_entropy is 0 where the label cannot be drafted. divergence: KL(p, q), with
    all that cannot be drafted among the others. overlap: Σ min(p, q) over the law's tokens, a lower bound of the
    probability that a draft drawn from q is accepted. hit: the likeliest draft is the label. counts: whether the
    prediction is trained on."""

    cross_entropy: torch.Tensor
    distance: torch.Tensor
    divergence: torch.Tensor
    confidence: torch.Tensor
    overlap: torch.Tensor
    hit: torch.Tensor
    counts: torch.Tensor

    def weighted(self, weights: LossWeights, decay: float) -> tuple[torch.Tensor, torch.Tensor]:
        """(Σ w · loss, Σ w) with w = exp(-(k-1) / decay) for the k-th prediction of a block."""
        loss = weights.cross_entropy * self.cross_entropy + weights.distance * self.distance
        loss = loss + weights.divergence * self.divergence + weights.confidence * self.confidence
        k = torch.arange(loss.shape[-1], device=loss.device)
        w = self.counts * torch.exp(-k / decay)
        return (w * loss).sum(), w.sum()


def score(reading: Reading, confidence: torch.Tensor | None, truth: Truth) -> Scores:
    """reading: what is read off q's logits. confidence: logits [..., P], None where there is no such head.

    p and q are compared on the law's tokens one by one, and on all others as if they were one token, so the distance
    is at most what it would be over the whole vocabulary.
    """
    known = truth.labels < reading.size
    q = reading.log_law.exp() * (truth.law_ids < reading.size)
    p = truth.law_probs
    others = (q.sum(-1) - p.sum(-1)).abs()
    distance = (q - p).abs().sum(-1) + others
    return Scores(
        cross_entropy=-reading.log_label * known,
        distance=distance,
        divergence=_divergence(reading, truth),
        confidence=_confidence_loss(confidence, distance),
        overlap=torch.minimum(q, p).sum(-1).detach(),
        hit=(reading.best == truth.labels) & truth.valid,
        counts=truth.valid & _reachable(known),
    )


def _divergence(reading: Reading, truth: Truth) -> torch.Tensor:
    """KL(p, q) over the law's tokens that can be drafted, and all others as one."""
    known = truth.law_ids < reading.size
    p = truth.law_probs * known
    other_p = (1 - p.sum(-1)).clamp(min=0)
    other_q = (1 - (reading.log_law.exp() * known).sum(-1)).clamp(min=LEAST_OTHERS)
    of_law = (torch.xlogy(p, p) - p * reading.log_law).sum(-1)
    return of_law + torch.xlogy(other_p, other_p) - other_p * other_q.log()


def _confidence_loss(logits: torch.Tensor | None, distance: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy against the probability of acceptance, 1 - L1 / 2, which is a label: no gradient."""
    if logits is None:
        return torch.zeros_like(distance)
    label = (1 - distance.detach() / 2).clamp(0, 1)
    return F.binary_cross_entropy_with_logits(logits, label, reduction="none")


def _reachable(known: torch.Tensor) -> torch.Tensor:
    """Predictions up to and with the first label that cannot be drafted: no draft ever gets past it."""
    missed = (~known).cumsum(dim=-1)
    return (missed - (~known).long()) == 0
