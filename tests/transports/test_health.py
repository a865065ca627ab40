"""DrafterHealth: a drafter that only fails is left alone for longer and longer, and one success ends that."""

from __future__ import annotations

from itertools import pairwise

from protos.messages import DraftChunk
from services.transports.health import FIRST_REST_S, LONGEST_REST_S, DrafterHealth

GOOD = DraftChunk(request_id="a", base_len=3)
BAD = DraftChunk(request_id="b", base_len=3, need_from=0, error="broken")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _rest(health: DrafterHealth, clock: Clock) -> float:
    """How long it rests from now on, to a hundredth of the first pause."""
    began = clock.now
    while health.resting:
        clock.now += FIRST_REST_S / 100
    return clock.now - began


def test_rests_grow_to_a_bound_and_end_with_a_success() -> None:
    clock = Clock()
    health = DrafterHealth(clock)
    assert not health.resting
    rests = []
    for _ in range(9):
        health.judge([BAD])
        rests.append(_rest(health, clock))
    assert all(after > 1.9 * before for before, after in pairwise(rests[:6]))
    assert abs(rests[-1] - LONGEST_REST_S) < FIRST_REST_S
    health.judge([GOOD])
    health.judge([BAD])
    assert abs(_rest(health, clock) - FIRST_REST_S) < FIRST_REST_S / 10


def test_one_bad_request_does_not_take_the_drafts_of_the_others() -> None:
    """Case M4."""
    health = DrafterHealth(Clock())
    health.judge([GOOD, BAD])
    assert (health.resting, health.reason, health.failures) == (False, "broken", 1)


def test_a_round_without_an_answer_tells_nothing() -> None:
    clock = Clock()
    health = DrafterHealth(clock)
    health.judge([BAD])
    rest = _rest(health, clock)
    health.judge([])
    assert (health.resting, health.reason) == (False, "broken")
    health.judge([BAD])
    assert _rest(health, clock) > 1.9 * rest
