"""HeldOut: figures by hand, from scores that are given, and features that are computed once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from drafters.training.answers import Example
from drafters.training.blocks import Batch
from drafters.training.features import Features
from drafters.training.held_out import HeldOut
from drafters.training.losses import Scores
from drafters.training.recipe import Recipe
from drafters.training.trainee import Trainee

PREDICTIONS = 2
CPU = torch.device("cpu")
# Answers of five, four and two tokens: three blocks, two, and none that is whole.
EXAMPLES = [
    Example(tokens=(0, 0, 1, 2, 3, 4, 5), prompt_len=2, domain="chat"),
    Example(tokens=(0, 6, 7, 8, 10), prompt_len=1, domain="code"),
    Example(tokens=(0, 4, 4), prompt_len=1, domain="code"),
]
RECIPE = Recipe(method="dflash", markov="none", batch=1, decay=1e6)


class Counting:
    """A FeatureSource with nothing to show, which counts what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Example] = []

    def __call__(self, examples: Sequence[Example]) -> list[Features]:
        self.asked += examples
        return [_nothing(len(each.tokens) - 1, each.prompt_len) for each in examples]


def _nothing(rows: int, prompt_len: int) -> Features:
    laws = rows - prompt_len
    return Features(
        taps=torch.zeros(rows, 0, dtype=torch.bfloat16),
        law_ids=torch.zeros(laws, 1, dtype=torch.int32),
        law_probs=torch.zeros(laws, 1, dtype=torch.float16),
    )


class Knowing(Trainee):
    """Gets the even labels right; its law overlaps the target's by a half, then by a quarter; it loses each label."""

    feature_layers = ()
    num_predictions = PREDICTIONS

    def publish(self, folder: Path) -> None: ...

    def forward(self, batch: Batch) -> Scores:
        nothing = torch.zeros(batch.labels.shape)
        return Scores(
            cross_entropy=batch.labels.float(),
            distance=nothing,
            divergence=nothing,
            confidence=nothing,
            overlap=torch.tensor([0.5, 0.25]).expand(batch.labels.shape),
            hit=batch.labels % 2 == 0,
            counts=batch.valid,
        )


def test_figures_by_hand() -> None:
    """Labels are 2 3, 3 4 and 4 5 in the first answer, 7 8 and 8 10 in the second."""
    found = HeldOut(EXAMPLES, Counting(), RECIPE, predictions=PREDICTIONS).figures(Knowing(), CPU)
    assert found.accepted_length == pytest.approx(1 + (3 + 1) / 5)
    assert found.by_domain == pytest.approx({"chat": 1 + 2 / 3, "code": 1 + (1 + 1) / 2})
    assert found.by_position == pytest.approx((3 / 5, 1 / 3))
    assert found.expected_length == pytest.approx(1 + 0.5 + 0.5 * 0.25)
    assert found.loss == pytest.approx((2 + 3 + 3 + 4 + 4 + 5 + 7 + 8 + 8 + 10) / 10, rel=1e-5)


def test_features_are_asked_for_once() -> None:
    source = Counting()
    held_out = HeldOut(EXAMPLES, source, RECIPE, predictions=PREDICTIONS)
    first, second = (held_out.figures(Knowing(), CPU) for _ in range(2))
    assert first == second
    assert source.asked == EXAMPLES[:2]


def test_an_answer_may_be_there_twice() -> None:
    """At a batch of two, the second batch begins with an answer of the first."""
    first, other = EXAMPLES[:2]
    recipe = Recipe(method="dflash", markov="none", batch=2, decay=1e6)
    found = HeldOut([first, first, first, other], Counting(), recipe, predictions=PREDICTIONS)
    assert found.figures(Knowing(), CPU).accepted_length == pytest.approx(1 + (3 * 2 + 2) / 11)


def test_answers_shorter_than_a_block_are_not_enough() -> None:
    with pytest.raises(ValueError, match="no held-out answer is longer than the 2 tokens that a block predicts"):
        HeldOut(EXAMPLES[2:], Counting(), RECIPE, predictions=PREDICTIONS)
