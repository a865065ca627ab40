"""LocalDrafter: the transport without distance; the drafter runs in the engine's own thread."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from protos.interfaces import Drafter, DrafterStatus
from protos.messages import DraftChunk, DraftQuery
from services.transports.guarded import forget, guarded


class LocalDrafter:
    """An AsyncDrafter in the same process.

    `collect` drafts, and stops between two chunks once the deadline has passed: the rest of that round is dropped, as a
    drafter synchronises itself by the next query. Counters: errors, timeouts.
    """

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self._queries: tuple[DraftQuery, ...] = ()
        self._counters: Counter[str] = Counter(errors=0, timeouts=0)
        self._reason = ""

    def send(self, queries: Sequence[DraftQuery]) -> None:
        self._queries = tuple(queries)

    def collect(self, deadline: float) -> list[DraftChunk]:
        queries, self._queries = self._queries, ()
        chunks: list[DraftChunk] = []
        unanswered = len(queries)
        for chunk in guarded(self._drafter, queries, self._failed):
            chunks.append(chunk)
            unanswered -= chunk.last
            if unanswered and time.monotonic() >= deadline:
                self._counters["timeouts"] += 1
                break
        return chunks

    def close(self, request_id: str) -> None:
        forget(self._drafter, request_id)

    def status(self) -> DrafterStatus:
        return DrafterStatus(up=True, reason=self._reason, counters=dict(self._counters))

    def shutdown(self) -> None:
        self._queries = ()

    def _failed(self, error: Exception) -> None:
        self._counters["errors"] += 1
        self._reason = f"{type(error).__name__}: {error}"
