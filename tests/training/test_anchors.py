"""Anchors: inside the answer, with a token to predict, and others each time."""

from __future__ import annotations

import torch

from drafters.training.anchors import draw_anchors, generator_for, spread_anchors
from drafters.training.answers import Example

EXAMPLE = Example(tokens=tuple(range(12)), prompt_len=5, domain="")


def test_every_place_but_the_last_is_drawn_and_no_other() -> None:
    drawn = [draw_anchors(EXAMPLE, 3, generator_for(seed)).tolist() for seed in range(100)]
    assert {place for places in drawn for place in places} == set(range(5, 11))
    for places in drawn:
        assert places == sorted(set(places))
        assert len(places) == 3


def test_a_short_answer_has_fewer() -> None:
    assert draw_anchors(EXAMPLE, 50, generator_for(0)).tolist() == list(range(5, 11))


def test_randomness_hangs_on_all_the_numbers() -> None:
    def draw(*numbers: int) -> list[int]:
        return torch.randint(1 << 30, (4,), generator=generator_for(*numbers)).tolist()

    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({tuple(draw(*numbers)) for numbers in [(1, 2, 3), (1, 3, 2), (1, 23), (12, 3), (0, 2, 3)]}) == 5


def test_spread_anchors_have_whole_blocks() -> None:
    assert spread_anchors(EXAMPLE, 3, 2).tolist() == [5, 7, 9]
    assert spread_anchors(EXAMPLE, 99, 2).tolist() == [5, 6, 7, 8, 9]
    assert spread_anchors(EXAMPLE, 1, 6).tolist() == [5]
    assert spread_anchors(EXAMPLE, 1, 7).tolist() == []
