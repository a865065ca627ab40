"""Schedule: every example once an epoch, on whatever ranks, and a learning rate that rises and falls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drafters.training.answers import Split
from drafters.training.ranks import Ranks
from drafters.training.recipe import Recipe
from drafters.training.schedule import Schedule


def test_an_epoch_sees_every_example_once_and_the_next_another_order(split: Split, recipe: Recipe) -> None:
    schedule = Schedule(split.train, recipe, Ranks())
    assert (schedule.steps_per_epoch, schedule.steps) == (5, 20)
    first, second = (
        [each for step in range(epoch * 5, epoch * 5 + 5) for each in schedule.draw(step).examples] for epoch in (0, 1)
    )
    assert set(first) == set(second) == set(split.train)
    assert first != second


def test_a_step_is_drawn_the_same_again_and_other_anchors_in_the_next_epoch(split: Split, recipe: Recipe) -> None:
    def drawn(epoch: int) -> dict[str, list[int]]:
        schedule, found = Schedule(split.train, recipe, Ranks()), {}
        for step in range(epoch * 5, epoch * 5 + 5):
            draw = schedule.draw(step)
            found |= {each.key: places.tolist() for each, places in zip(draw.examples, draw.anchors, strict=True)}
        return found

    assert drawn(0) == drawn(0) != drawn(1)


def test_ranks_share_a_step(split: Split, recipe: Recipe) -> None:
    alone = Schedule(split.train, recipe, Ranks()).draw(7)
    shares = [Schedule(split.train, recipe, Ranks(rank=rank, world=2)).draw(7) for rank in (0, 1)]
    assert [share.examples for share in shares] == [alone.examples[::2], alone.examples[1::2]]
    assert [places.tolist() for places in shares[1].anchors] == [places.tolist() for places in alone.anchors[1::2]]
    with pytest.raises(ValueError, match="3 processes cannot share"):
        Schedule(split.train, recipe, Ranks(rank=0, world=3))


def test_too_few_examples_are_refused(split: Split, recipe: Recipe) -> None:
    with pytest.raises(ValueError, match="3 answers to train on make no batch of 4"):
        Schedule(split.train[:3], recipe, Ranks())


def test_the_learning_rate_rises_and_falls_to_almost_nothing(split: Split, recipe: Recipe) -> None:
    schedule = Schedule(split.train, replace(recipe, epochs=20, warmup=0.1), Ranks())
    rates = [schedule.learning_rate(step) for step in range(schedule.steps)]
    assert rates[:10] == pytest.approx([recipe.learning_rate * (i + 1) / 10 for i in range(10)])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert 0 < rates[-1] < recipe.learning_rate / 1000
