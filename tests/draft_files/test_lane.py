"""A lane: what gathers goes at once, what fails fails alone, what is too much or too late is dropped and counted."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from services.draft_files.lane import MAX_BATCH, Lane, Outcome
from tests.draft_files.rounds import until


class Doubling:
    """Doubles numbers, none below 0, once it may."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.batches: list[list[int]] = []

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.batches.append(list(numbers))
        self.go.wait(30)
        if min(numbers) < 0:
            raise ValueError(f"{min(numbers)} is below 0")
        return [2 * number for number in numbers]


@pytest.fixture
def work() -> Doubling:
    return Doubling()


@pytest.fixture
def lane(work: Doubling) -> Iterator[Lane[int, int]]:
    lane = Lane(work, name="doubling", limit=600)
    yield lane
    work.go.set()
    assert lane.close(30)


def test_each_parcel_gets_its_own(lane: Lane[int, int], work: Doubling) -> None:
    work.go.clear()
    first = lane.put([1])
    until(lambda: work.batches == [[1]])
    parcels = [lane.put([number, number + 1]) for number in (10, 20)]
    work.go.set()
    assert first is not None
    assert first.result(30) == Outcome(made=(2,))
    assert [parcel and parcel.result(30) for parcel in parcels] == [Outcome(made=(20, 22)), Outcome(made=(40, 42))]
    assert work.batches == [[1], [10, 11, 20, 21]]
    assert lane.counters == {"done": 5, "dropped": 0, "errors": 0}


def test_one_that_fails_fails_alone(lane: Lane[int, int]) -> None:
    parcel = lane.put([1, -2, 3, -4])
    assert parcel is not None
    assert parcel.result(30) == Outcome(made=(2, 6), failed=2, error="ValueError: -4 is below 0")
    assert lane.reason == "ValueError: -4 is below 0"
    well = lane.put([5])
    assert well is not None
    assert well.result(30) == Outcome(made=(10,))
    assert lane.reason == ""
    assert lane.counters == {"done": 3, "dropped": 0, "errors": 2}


def test_batches_are_bounded_unless_one_caller_puts_more(lane: Lane[int, int], work: Doubling) -> None:
    work.go.clear()
    lane.put([0])
    until(lambda: len(work.batches) == 1)
    parcels = [lane.put(range(size)) for size in (MAX_BATCH, 1, MAX_BATCH + 1)]
    work.go.set()
    assert all(parcel and len(parcel.result(30).made) for parcel in parcels)
    assert [len(batch) for batch in work.batches] == [1, MAX_BATCH, 1, MAX_BATCH + 1]


def test_what_is_too_much_is_dropped(lane: Lane[int, int], work: Doubling) -> None:
    work.go.clear()
    lane.put([0])
    until(lambda: len(work.batches) == 1)
    assert lane.put(range(600)) is not None
    assert lane.put([1]) is None
    assert lane.counters["dropped"] == 1


def test_what_nobody_waits_for_is_not_done(lane: Lane[int, int], work: Doubling) -> None:
    work.go.clear()
    lane.put([0])
    until(lambda: len(work.batches) == 1)
    parcels = [lane.put([number]) for number in (1, 2, 3)]
    assert parcels[0] is not None
    assert parcels[2] is not None
    assert parcels[0].cancel()
    assert parcels[2].cancel()
    work.go.set()
    assert lane.close(30)
    assert work.batches == [[0], [2]]


def test_closing_does_what_waits_and_takes_nothing_more(lane: Lane[int, int], work: Doubling) -> None:
    work.go.clear()
    parcel = lane.put([1])
    assert not lane.close(0.01)
    assert lane.put([2]) is None
    work.go.set()
    assert lane.close(30)
    assert parcel is not None
    assert parcel.result(0) == Outcome(made=(2,))


def test_too_few_results_are_a_failure() -> None:
    lane: Lane[int, int] = Lane(lambda numbers: [], name="lazy", limit=9)
    parcel = lane.put([1])
    assert parcel is not None
    assert parcel.result(30).error == "RuntimeError: 0 results for 1 items"
    assert lane.close(30)
