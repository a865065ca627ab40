"""The draft model's slots: long texts read in pieces, full slots, more requests than slots."""

from __future__ import annotations

from pathlib import Path

from drafters.draft_model import INGEST_ROWS
from tests.drafters.draft_models import build, spied
from tests.fakes.queries import query


def test_long_prompt_is_read_over_several_calls(checkpoint: Path) -> None:
    text = tuple(i % 250 for i in range(2 * INGEST_ROWS + 50))
    drafter = build(checkpoint)
    works = spied(drafter)
    for step in range(2):
        (empty,) = drafter.draft([query(text[: len(text) - 4 + step], seen=step and len(text) - 4)])
        assert (empty.tokens, empty.need_from, empty.last) == ((), None, True)
    (long,) = drafter.draft([query(text, seen=len(text) - 3)])
    assert [len(work.tokens) for work in works[:3]] == [INGEST_ROWS, INGEST_ROWS, 50]
    assert len(long.tokens) == 5
    (again,) = drafter.draft([query(text, seen=len(text) - 1)])
    assert again.tokens == long.tokens


def test_one_call_reads_a_bounded_number_of_rows(checkpoint: Path) -> None:
    """First come, first served; a request that only follows its own draft is never kept waiting."""
    drafter = build(checkpoint)
    texts = {name: (ord(name), *(i % 250 for i in range(INGEST_ROWS - 30))) for name in "abc"}
    (short,) = drafter.draft([query((1, 2, 3), request_id="s")])
    works = spied(drafter)
    asked = [query(text, request_id=name) for name, text in texts.items()]
    following = query((1, 2, 3, *short.tokens, 9), seen=3, request_id="s")
    first = {chunk.request_id: chunk for chunk in drafter.draft([*asked, following])}
    assert [len(first[name].tokens) for name in "abcs"] == [5, 0, 0, 5]
    assert sum(len(work.tokens) for work in works if len(work.tokens) > 2) == INGEST_ROWS
    seen = {name: query(text, request_id=name, seen=len(text)) for name, text in texts.items()}
    second = {chunk.request_id: chunk for chunk in drafter.draft([seen["b"], seen["c"]])}
    third = {chunk.request_id: chunk for chunk in drafter.draft([seen["c"]])}
    assert [len(second["b"].tokens), len(second["c"].tokens), len(third["c"].tokens)] == [5, 0, 5]
    (alone,) = build(checkpoint).draft([query(texts["a"])])
    assert first["a"].tokens == alone.tokens


def test_a_lost_answer_does_not_start_the_reading_again(checkpoint: Path) -> None:
    drafter = build(checkpoint)
    text = tuple(i % 250 for i in range(INGEST_ROWS + 20))
    works = spied(drafter)
    assert [len(next(drafter.draft([query(text)])).tokens) for _ in range(3)] == [0, 5, 5]
    starts = [work.start for work in works if len(work.tokens) > 1 or work.start < len(text)]
    assert starts == [0, INGEST_ROWS, len(text) - 1]


def test_text_up_to_the_last_row_and_beyond(checkpoint: Path) -> None:
    drafter = build(checkpoint, num_speculative_tokens=5)
    text = tuple(i % 250 for i in range(1030))
    for _ in range(1022 // INGEST_ROWS):
        list(drafter.draft([query(text[:1022])]))
    (near,) = drafter.draft([query(text[:1022])])
    assert len(near.tokens) == 2
    (full,) = drafter.draft([query(text[:1024], seen=1022)])
    assert (full.tokens, full.need_from) == ((), None)
    (beyond,) = drafter.draft([query(text[:1030], seen=1024)])
    assert (beyond.tokens, beyond.need_from) == ((), None)


def test_a_request_without_a_slot_sends_its_text_once_there_is_one(checkpoint: Path) -> None:
    drafter = build(checkpoint, seqs=1)
    text = {name: (ord(name), 5, 6, 7, 8) for name in "ab"}
    for length in range(3, 5):
        asked = [query(text[name][:length], seen=length - 1 if length > 3 else 0, request_id=name) for name in "ab"]
        chunks = {chunk.request_id: chunk for chunk in drafter.draft(asked)}
        assert chunks["a"].tokens
        assert (chunks["b"].tokens, chunks["b"].need_from) == ((), None)
    drafter.close("a")
    (room,) = drafter.draft([query(text["b"], seen=4, request_id="b")])
    assert (room.tokens, room.need_from) == ((), 0)
    (served,) = drafter.draft([query(text["b"], request_id="b")])
    assert len(served.tokens) == 5


def test_more_requests_than_slots(checkpoint: Path) -> None:
    drafter = build(checkpoint, seqs=2)
    texts = {name: (ord(name), 5, 6) for name in "abc"}
    chunks = {c.request_id: c for c in drafter.draft([query(t, request_id=n) for n, t in texts.items()])}
    assert [len(chunks[name].tokens) for name in "abc"] == [5, 5, 0]
    assert chunks["c"].need_from is None
    list(drafter.draft([query(texts["c"], request_id="c")]))  # takes the slot of a, the least recently used
    longer = {name: query((*text, 9), seen=3, request_id=name) for name, text in texts.items()}
    (a,) = drafter.draft([longer["a"]])
    assert (a.tokens, a.need_from) == ((), 0)
    assert all(chunk.tokens for chunk in drafter.draft([longer["b"], longer["c"]]))
    drafter.close("b")
    (again,) = drafter.draft([query((*texts["a"], 9), request_id="a")])
    (c,) = drafter.draft([longer["c"]])
    assert len(again.tokens) == len(c.tokens) == 5
