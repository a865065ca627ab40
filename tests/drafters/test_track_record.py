"""What drafts came to, and what the next is worth by it."""

from __future__ import annotations

import random

import pytest

from drafters.track_record import MEMORY, TrackRecord, outcome
from protos.draft import Draft


def chain(*survival: float, tokens: tuple[int, ...] | None = None) -> Draft:
    size = len(survival)
    return Draft(
        request_id="r",
        base_len=4,
        tokens=tokens or tuple(range(size)),
        parents=tuple(range(-1, size - 1)),
        survival=survival,
        sources=("x",) * size,
    )


TREE = Draft(
    request_id="r",
    base_len=4,
    tokens=(7, 8, 9, 9, 7),
    parents=(-1, -1, 0, 1, 3),
    survival=(0.5, 0.4, 0.3, 0.3, 0.1),
    sources=("x",) * 5,
)


@pytest.mark.parametrize(
    ("draft", "committed", "lived"),
    [
        (chain(0.9, 0.8, 0.7), [], None),
        (chain(0.9, 0.8, 0.7), [0, 1], None),
        (chain(0.9, 0.8, 0.7), [0, 1, 2], 3),
        (chain(0.9, 0.8, 0.7), [0, 1, 2, 3], 3),
        (chain(0.9, 0.8, 0.7), [0, 5], 1),
        (chain(0.9, 0.8, 0.7), [5, 1, 2], 0),
        (TREE, [7], None),
        (TREE, [7, 9], 2),
        (TREE, [8, 9], None),
        (TREE, [8, 9, 7], 3),
        (TREE, [9], 0),
    ],
)
def test_outcome(draft: Draft, committed: list[int], lived: int | None) -> None:
    assert outcome(draft, committed) == lived


def test_an_unknown_source_is_believed_and_tried() -> None:
    record = TrackRecord()
    assert record.worth(chain(0.9, 0.5)) == pytest.approx(1.4)
    assert record.usual(7) == 7


def test_a_source_that_promises_too_much_is_corrected() -> None:
    """It says 0.9 of each next token, of which half come true: worth and usual are what happens."""
    draws, record, draft = random.Random(0), TrackRecord(), chain(*(0.9**k for k in range(1, 8)))
    for _ in range(2000):
        record.judge(draft, next((k for k in range(7) if draws.random() < 0.5), 7))
    expected = sum(0.5**k for k in range(1, 8))
    assert record.worth(draft) == pytest.approx(expected, rel=0.3)
    assert record.usual(7) == pytest.approx(expected, rel=0.3)
    assert record.worth(chain(0.9)) == pytest.approx(record.worth(draft) * 0.9 / sum(draft.survival))


def test_a_modest_source_is_worth_more_but_never_more_than_its_tokens() -> None:
    record, draft = TrackRecord(), chain(0.3, 0.1)
    for _ in range(100):
        record.judge(draft, 2)
    assert record.worth(draft) > 1.5
    assert record.worth(chain(0.9, 0.8)) == 2


def test_old_drafts_fade() -> None:
    record = TrackRecord()
    for lived in [7] * 500 + [0] * int(5 * MEMORY):
        record.judge(chain(*[1.0] * 7), lived)
    assert record.usual(7) < 0.3


def test_an_heir_starts_with_the_averages_and_reports() -> None:
    wide, draft = TrackRecord(), chain(*[1.0] * 4)
    for _ in range(200):
        wide.judge(draft, 1)
    heir = TrackRecord(wide)
    assert 1 < heir.usual(4) < 2
    for _ in range(12):
        heir.judge(draft, 4)
    assert heir.usual(4) > 3
    assert 1 < wide.usual(4) < 2
