"""The local transport: a drafter that breaks or dawdles costs its drafts and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from protos.messages import DraftChunk, DraftQuery, Tokens
from services.transports.local import HANDED_OVER_S, LocalDrafter
from tests.fakes.queries import query
from tests.fakes.scripted import Scripted, oracle

PROMPT, ANSWER = (1, 2, 3), (4, 5, 6, 7)


class Breaking:
    """Answers the first `good` queries of a call, then raises where others are left; `close` raises too."""

    def __init__(self, good: int) -> None:
        self._inner = oracle({PROMPT: ANSWER}, vocab_size=9)
        self.good = good
        self.closed: list[str] = []

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        yield from self._inner.draft(queries[: self.good])
        if len(queries) > self.good:
            raise RuntimeError("the drafter broke")

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        self.closed.append(request_id)
        raise OSError("and cannot close")


def later() -> float:
    return time.monotonic() + 30


def test_exception_is_counted_and_the_state_reset() -> None:
    """Case M4: a drafter that fails is down, with its reason, until a round without a failure."""
    drafter = Breaking(good=1)
    transport = LocalDrafter(drafter)
    transport.send([query(PROMPT, request_id="a"), query(PROMPT, request_id="b")])
    good, bad = transport.collect(later())
    assert good.tokens == ANSWER
    assert (bad.request_id, bad.tokens, bad.need_from, bad.last) == ("b", (), 0, True)
    assert drafter.closed == ["b"]
    status = transport.status()
    assert not status.up
    assert status.reason == bad.error == "RuntimeError: the drafter broke"
    assert status.counters == {"errors": 1, "timeouts": 0}
    transport.close("a")
    assert transport.collect(later()) == []  # nothing was asked, so nothing is known
    assert not transport.status().up
    drafter.good = 2
    transport.send([query(PROMPT, request_id="b")])
    transport.collect(later())
    assert (transport.status().up, transport.status().reason) == (True, "")


def test_a_query_left_unanswered_is_a_failure() -> None:
    class Silent:
        def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
            return iter(())

        def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None: ...

    transport = LocalDrafter(Silent())
    transport.send([query(PROMPT)])
    (chunk,) = transport.collect(later())
    assert (chunk.last, chunk.need_from) == (True, 0)
    assert "left 1 of 1 queries unanswered" in transport.status().reason


class OneByOne:
    """Takes its time for each query."""

    def __init__(self) -> None:
        self._inner = oracle({PROMPT: ANSWER}, vocab_size=9)

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        for each in queries:
            time.sleep(10 * HANDED_OVER_S)
            yield from self._inner.draft([each])

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        self._inner.close(request_id, tail_start=tail_start, tail=tail)


def test_deadline_ends_a_round_that_still_takes_time() -> None:
    transport = LocalDrafter(OneByOne())
    queries = [query(PROMPT, request_id=name) for name in "abc"]
    transport.send(queries)
    assert [chunk.request_id for chunk in transport.collect(0)] == ["a"]
    assert transport.status().counters["timeouts"] == 1
    transport.send(queries)
    assert [chunk.request_id for chunk in transport.collect(later())] == ["a", "b", "c"]


def test_what_was_made_for_all_at_once_is_taken_however_late() -> None:
    class AtOnce(OneByOne):
        def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
            yield from list(super().draft(queries))

    transport = LocalDrafter(AtOnce())
    transport.send([query(PROMPT, request_id=name) for name in "abc"])
    assert [chunk.request_id for chunk in transport.collect(time.monotonic() + HANDED_OVER_S)] == ["a", "b", "c"]
    assert transport.status().counters["timeouts"] == 0


def test_nothing_is_collected_twice() -> None:
    transport = LocalDrafter(oracle({PROMPT: ANSWER}, vocab_size=9))
    transport.send([query(PROMPT)])
    assert len(transport.collect(later())) == 1
    assert transport.collect(later()) == []
    transport.send([query(PROMPT)])
    transport.shutdown()
    assert transport.collect(later()) == []


def test_close_reaches_the_drafter() -> None:
    drafter: Scripted = oracle({PROMPT: ANSWER}, vocab_size=9)
    transport = LocalDrafter(drafter)
    transport.send([query(PROMPT)])
    transport.collect(later())
    transport.close("r", tail_start=3, tail=ANSWER)
    assert (drafter.texts, drafter.finished) == ({}, {"r": [*PROMPT, *ANSWER]})
