"""The mailbox: what is owed, what has come, and when to stop asking."""

from __future__ import annotations

import threading
import time

from protos.messages import DraftChunk
from services.transports.mailbox import MAX_CHUNKS, Mailbox
from tests.fakes.queries import query


def opened() -> Mailbox:
    mailbox = Mailbox()
    mailbox.open()
    return mailbox


def chunk(base_len: int = 1, *, request_id: str = "r", last: bool = True, offset: int = 0) -> DraftChunk:
    return DraftChunk(
        request_id=request_id, base_len=base_len, offset=offset, tokens=(1,), parents=(offset - 1,), last=last
    )


def soon() -> float:
    return time.monotonic() + 0.02


def test_closed_nothing_is_asked_nor_awaited() -> None:
    mailbox = Mailbox()
    assert not mailbox.expect([query([1])])
    assert mailbox.collect(time.monotonic() + 60) == []
    assert mailbox.counters["dropped"] == 1


def test_collect_ends_with_the_last_chunk_owed() -> None:
    mailbox = opened()
    assert mailbox.expect([query([1]), query([1], request_id="s")])
    parts = [chunk(last=False), chunk(offset=1), chunk(request_id="s")]
    reader = threading.Thread(target=lambda: [mailbox.deliver([part]) for part in parts])
    reader.start()
    assert mailbox.collect(time.monotonic() + 60) == parts
    reader.join()
    assert mailbox.counters["timeouts"] == 0


def test_deadline_then_no_waiting_until_all_has_come() -> None:
    mailbox = opened()
    mailbox.expect([query([1]), query([1], request_id="s")])
    mailbox.deliver([chunk()])
    assert mailbox.collect(soon()) == [chunk()]
    assert mailbox.late_for > 0
    assert not mailbox.expect([query([1, 2])])
    assert mailbox.collect(time.monotonic() + 60) == []  # at once: one deadline was enough
    mailbox.deliver([chunk(request_id="s")])
    assert mailbox.late_for == 0
    assert mailbox.expect([query([1, 2])])
    mailbox.deliver([chunk(2)])
    assert mailbox.collect(soon()) == [chunk(request_id="s"), chunk(2)]
    assert (mailbox.counters["timeouts"], mailbox.counters["dropped"]) == (1, 1)


def test_unexpected_chunks_are_dropped() -> None:
    mailbox = opened()
    mailbox.expect([query([1])])
    mailbox.deliver([chunk(7), chunk(request_id="other"), chunk(), chunk()])
    assert mailbox.collect(soon()) == [chunk()]
    assert mailbox.counters["unexpected"] == 3


def test_a_request_that_is_over_is_owed_nothing() -> None:
    mailbox = opened()
    mailbox.expect([query([1])])
    assert mailbox.collect(soon()) == []
    mailbox.forget("r")
    assert mailbox.late_for == 0


def test_losing_the_drafter_wakes_the_engine() -> None:
    mailbox = opened()
    mailbox.expect([query([1])])
    timer = threading.Timer(0.02, mailbox.lose)
    timer.start()
    assert mailbox.collect(time.monotonic() + 60) == []
    timer.join()
    assert not mailbox.expect([query([1])])


def test_a_flood_is_bounded() -> None:
    mailbox = opened()
    mailbox.expect([query([1])])
    for _ in range(3):
        mailbox.deliver([chunk(last=False)] * MAX_CHUNKS)
    mailbox.deliver([chunk()])
    assert len(mailbox.collect(soon())) == MAX_CHUNKS
