"""LocalDrafter: the transport without distance; the drafter runs in the engine's own thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from drafters.guarded import forget, guarded
from protos.interfaces import Drafter, DrafterStatus
from protos.messages import DraftChunk, DraftQuery, Tokens
from services.transports.health import DrafterHealth

HANDED_OVER_S = 1e-3  # longer than it takes to hand over a chunk that was there already


class LocalDrafter:
    """An AsyncDrafter in the same process.

    `collect` drafts, and stops once the deadline has passed and a chunk begun after it took time: what a drafter made
    for all queries at once is taken whole, however late. The rest of the round is dropped, as a drafter synchronises
    itself by the next query. One that only fails is asked at growing intervals. Counters: errors (queries that it
    failed at), timeouts. `opened`: what the drafter works with and `shutdown` closes.
    """

    def __init__(self, drafter: Drafter, opened: contextlib.ExitStack | None = None) -> None:
        self._drafter = drafter
        self._opened = opened or contextlib.ExitStack()
        self._queries: tuple[DraftQuery, ...] = ()
        self._health = DrafterHealth()
        self._timeouts = 0

    def send(self, queries: Sequence[DraftQuery]) -> None:
        self._queries = () if self._health.resting else tuple(queries)

    def collect(self, deadline: float) -> list[DraftChunk]:
        queries, self._queries = self._queries, ()
        chunks: list[DraftChunk] = []
        unanswered, begun = len(queries), time.monotonic()
        for chunk in guarded(self._drafter, queries):
            chunks.append(chunk)
            unanswered -= chunk.last
            made = time.monotonic()
            if unanswered and begun >= deadline and made - begun > HANDED_OVER_S:
                self._timeouts += 1
                break
            begun = made
        self._health.judge(chunks)
        return chunks

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        forget(self._drafter, request_id, tail_start=tail_start, tail=tail)

    def status(self) -> DrafterStatus:
        health = self._health
        counters: dict[str, float] = {"errors": health.failures, "timeouts": self._timeouts}
        return DrafterStatus(up=not health.reason, reason=health.reason, counters=counters)

    def shutdown(self) -> None:
        self._queries = ()
        self._opened.close()
