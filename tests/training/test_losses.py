"""score: against the same computed by hand, one prediction after the other."""

from __future__ import annotations

import math

import pytest
import torch

from drafters.training.losses import LossWeights, Scores, Truth, score
from drafters.training.reading import Reading, read

V = 4  # id 4 stands for what cannot be drafted
LOGITS = torch.tensor([[[0.0, 1.0, 2.0, -1.0], [3.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]]])
TRUTH = Truth(
    labels=torch.tensor([[2, 4, 1]]),
    law_ids=torch.tensor([[[2, 1], [4, 0], [1, 0]]]),
    law_probs=torch.tensor([[[0.6, 0.3], [0.5, 0.25], [0.4, 0.4]]]),
    valid=torch.tensor([[True, True, True]]),
)
CONFIDENCE = torch.tensor([[0.3, -0.2, 1.0]])


def of(logits: torch.Tensor, truth: Truth) -> Reading:
    """What is read off these logits."""
    return read(logits, torch.eye(V), truth.labels, truth.law_ids)


def softmax(row: torch.Tensor) -> list[float]:
    powers = [math.exp(x) for x in row.tolist()]
    return [x / sum(powers) for x in powers]


def test_by_hand() -> None:
    scores = score(of(LOGITS, TRUTH), CONFIDENCE, TRUTH)
    for k in range(3):
        q = [*softmax(LOGITS[0, k]), 0.0]
        label, ids, p = (each[0, k].tolist() for each in (TRUTH.labels, TRUTH.law_ids, TRUTH.law_probs))
        pairs = [(q[token], probability) for token, probability in zip(ids, p, strict=True)]
        pairs_and_rest = [*pairs, (1 - sum(a for a, _ in pairs), 1 - sum(p))]
        distance = sum(abs(a - b) for a, b in pairs_and_rest)
        accepted, chance = 1 - distance / 2, 1 / (1 + math.exp(-CONFIDENCE[0, k].item()))
        confidence = -accepted * math.log(chance) - (1 - accepted) * math.log(1 - chance)
        assert scores.distance[0, k].item() == pytest.approx(distance, rel=1e-5)
        assert scores.overlap[0, k].item() == pytest.approx(sum(min(pair) for pair in pairs), rel=1e-5)
        assert scores.confidence[0, k].item() == pytest.approx(confidence, rel=1e-5)
        mass = {token: probability for token, probability in zip(ids, p, strict=True) if token < V}
        outcomes = [(probability, q[token]) for token, probability in mass.items()]
        outcomes.append((1 - sum(mass.values()), 1 - sum(q[token] for token in mass)))
        divergence = sum(a * math.log(a / b) for a, b in outcomes)
        assert scores.divergence[0, k].item() == pytest.approx(divergence, rel=1e-4, abs=1e-6)
        expected = 0.0 if label == V else -math.log(q[label])
        assert scores.cross_entropy[0, k].item() == pytest.approx(expected, rel=1e-5)
    assert scores.hit.tolist() == [[True, False, False]]


def test_nothing_counts_after_a_label_that_cannot_be_drafted() -> None:
    assert score(of(LOGITS, TRUTH), None, TRUTH).counts.tolist() == [[True, True, False]]


def test_what_is_not_valid_neither_counts_nor_hits() -> None:
    truth = Truth(
        labels=torch.tensor([[2, 0, 0]]), law_ids=TRUTH.law_ids, law_probs=TRUTH.law_probs, valid=TRUTH.valid & False
    )
    scores = score(of(LOGITS, truth), None, truth)
    assert not scores.counts.any()
    assert not scores.hit.any()


def test_the_mean_weighs_early_predictions_more() -> None:
    ones = torch.ones(1, 3)
    scores = Scores(
        cross_entropy=torch.tensor([[1.0, 2.0, 4.0]]),
        distance=10 * ones,
        divergence=1000 * ones,
        confidence=100 * ones,
        overlap=ones,
        hit=ones.bool(),
        counts=torch.tensor([[True, True, False]]),
    )
    weights = LossWeights(cross_entropy=1.0, distance=0.5, confidence=0.25, divergence=0.125)
    loss, weight = scores.weighted(weights, decay=4.0)
    second = math.exp(-1 / 4)
    assert weight.item() == pytest.approx(1 + second)
    assert loss.item() == pytest.approx((1 + 5 + 25 + 125) + second * (2 + 5 + 25 + 125))


def test_confidence_teaches_itself_and_not_the_law() -> None:
    logits, confidence = LOGITS.clone().requires_grad_(), CONFIDENCE.clone().requires_grad_()
    score(of(logits, TRUTH), confidence, TRUTH).confidence.sum().backward()
    assert logits.grad is None or not logits.grad.any()
    assert confidence.grad is not None
    assert confidence.grad.all()


def test_a_perfect_drafter_loses_nothing() -> None:
    law = torch.tensor([[[0.5, 0.3, 0.1, 0.1]]])
    truth = Truth(
        labels=torch.tensor([[0]]),
        law_ids=torch.tensor([[[0, 1]]]),
        law_probs=torch.tensor([[[0.5, 0.3]]]),
        valid=torch.tensor([[True]]),
    )
    scores = score(of(law.log(), truth), None, truth)
    assert scores.distance.item() == pytest.approx(0, abs=1e-6)
    assert scores.divergence.item() == pytest.approx(0, abs=1e-6)
    assert scores.overlap.item() == pytest.approx(0.8)


@pytest.mark.parametrize("first", [1.0, 1.0005])
def test_a_law_without_others_teaches(first: float) -> None:
    """Probabilities are kept in fp16, so what they leave for the others may be nothing, or less."""
    truth = Truth(
        labels=torch.tensor([[0]]),
        law_ids=torch.tensor([[[0, 1]]]),
        law_probs=torch.tensor([[[first, 0.0]]]),
        valid=torch.tensor([[True]]),
    )
    logits = LOGITS[:, :1].clone().requires_grad_()
    divergence = score(of(logits, truth), None, truth).divergence
    divergence.sum().backward()
    assert divergence.item() == pytest.approx(-math.log(softmax(LOGITS[0, 0])[0]), rel=1e-2)
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert logits.grad[0, 0, 0] < 0


def test_a_law_that_leaves_nothing_to_others_gives_a_finite_slope() -> None:
    logits = LOGITS.clone().requires_grad_()
    truth = Truth(
        labels=torch.tensor([[2, 0, 1]]),
        law_ids=torch.tensor([[[2, 1], [0, 1], [1, 0]]]),
        law_probs=torch.tensor([[[1.0, 0.0], [0.75, 0.25], [0.6, 0.4]]]),
        valid=TRUTH.valid,
    )
    scores = score(of(logits, truth), None, truth)
    scores.weighted(LossWeights(cross_entropy=1.0, distance=1.0, confidence=1.0, divergence=1.0), 4.0)[0].backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
