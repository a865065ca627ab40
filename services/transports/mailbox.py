"""Mailbox: what a drafter at a distance was asked, what has arrived, and whether it keeps up."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from protos.messages import DraftChunk, DraftQuery

MAX_CHUNKS = 4096


class Mailbox:
    """Shared by the engine's thread (`expect`, `collect`, `forget`) and a reader thread (`open`, `deliver`, `lose`).

    Closed, nothing is asked and nothing awaited. A round that is not answered at its deadline makes the drafter *late*:
    until all answers owed have come, no further round is asked, so that a slow drafter costs one deadline, not one a
    step. Counters: dropped (queries not sent), timeouts (rounds), unexpected (chunks nobody waits for).
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open = False
        self._owed: set[tuple[str, int]] = set()
        self._arrived: deque[DraftChunk] = deque(maxlen=MAX_CHUNKS)
        self._late_since: float | None = None
        self.counters: Counter[str] = Counter(dropped=0, timeouts=0, unexpected=0)

    def expect(self, queries: Sequence[DraftQuery]) -> bool:
        """True where the round may be sent now; its answers are then owed."""
        with self._changed:
            if not self._open or self._late_since is not None:
                self.counters["dropped"] += len(queries)
                return False
            self._owed.update((query.request_id, query.base_len) for query in queries)
            return True

    def collect(self, deadline: float) -> list[DraftChunk]:
        """What has arrived, once nothing is owed, at the deadline, or at once where the drafter is late or lost."""
        with self._changed:
            if self._late_since is None:
                remaining = max(deadline - time.monotonic(), 0)
                if not self._changed.wait_for(lambda: not self._owed, timeout=remaining):
                    self.counters["timeouts"] += 1
                    self._late_since = time.monotonic()
            chunks = list(self._arrived)
            self._arrived.clear()
            return chunks

    def deliver(self, chunks: Iterable[DraftChunk]) -> None:
        """Puts in what came; a chunk that no query is waiting for is dropped."""
        with self._changed:
            for chunk in chunks:
                key = (chunk.request_id, chunk.base_len)
                if key not in self._owed:
                    self.counters["unexpected"] += 1
                    continue
                self._arrived.append(chunk)
                if chunk.last:
                    self._owed.discard(key)
            self._settle()

    def forget(self, request_id: str) -> None:
        """The request is over: its answers are no longer owed."""
        with self._changed:
            self._owed = {key for key in self._owed if key[0] != request_id}
            self._settle()

    def open(self) -> None:
        """The drafter can be asked."""
        with self._changed:
            self._open = True

    def lose(self) -> None:
        """The drafter is gone: what it owed will not come."""
        with self._changed:
            self._open = False
            self._owed.clear()
            self._settle()

    @property
    def is_open(self) -> bool:
        """True where the drafter can be asked, unless it is late."""
        return self._open

    @property
    def late_for(self) -> float:
        """Seconds since the deadline that was missed; 0 where the drafter keeps up."""
        late_since = self._late_since
        return 0.0 if late_since is None else time.monotonic() - late_since

    def _settle(self) -> None:
        if not self._owed:
            self._late_since = None
            self._changed.notify_all()
