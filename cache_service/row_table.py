"""RowTable: where the record of each row stands, how much room it takes and when it was last used."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

ENTRY = np.dtype(
    [
        ("row", "<i8"),
        ("used", "<i8"),  # ticks of the clock
        ("segment", "<i4"),  # its number
        ("start", "<u4"),  # of the frame in the segment, in units of 8 bytes
        ("size", "<u4"),  # bytes of the payload
        ("alive", "?"),
        ("featured", "?"),  # the record has a feature
    ]
)
_SMALLEST = 1024


class RowTable:
    """Rows count up and are never used again. What is known of dead ones is forgotten when they are most of the table.

    Positions are where a row stands in the table; they change with `append`.
    """

    def __init__(self) -> None:
        self._entries = np.zeros(_SMALLEST, ENTRY)
        self._size = 0
        self._next = 0
        self._num_alive = 0

    def __len__(self) -> int:
        """Rows that are alive."""
        return self._num_alive

    @property
    def entries(self) -> NDArray[np.void]:
        """ENTRY [rows known], rows ascending; a view."""
        return self._entries[: self._size]

    def append(self, entries: NDArray[np.void]) -> Rows:
        """New rows, alive; their numbers."""
        if self._size + len(entries) > len(self._entries):
            self._make_room(len(entries))
        rows = np.arange(self._next, self._next + len(entries), dtype=np.int64)
        known = self._entries[self._size : self._size + len(entries)]
        known[:] = entries
        known["row"], known["alive"] = rows, True
        self._size += len(entries)
        self._next += len(entries)
        self._num_alive += len(entries)
        return rows

    def at(self, positions: Rows) -> NDArray[np.void]:
        """ENTRY [positions], copied; anything where a position is -1."""
        return self._entries[positions]

    def positions(self, rows: Rows) -> Rows:
        """-1 where a row is dead or was never given."""
        size = self._size
        if size == self._next:  # no row was forgotten
            found = np.where((rows >= 0) & (rows < size), rows, -1)
        else:
            known = self.entries["row"]
            found = np.minimum(np.searchsorted(known, rows), size - 1)
            found = np.where(known[found] == rows, found, -1) if size else np.full(len(rows), -1)
        return np.where((found >= 0) & self._entries["alive"][found], found, -1)

    def position(self, row: int) -> int | None:
        """None where the row is dead or was never given."""
        place = row if self._size == self._next else int(np.searchsorted(self.entries["row"], row))
        if not 0 <= place < self._size or self._entries["row"][place] != row or not self._entries["alive"][place]:
            return None
        return place

    def live_rows(self) -> Rows:
        """Ascending: the newest last."""
        known = self.entries
        return np.ascontiguousarray(known["row"][known["alive"]])

    def kill(self, rows: Iterable[int]) -> None:
        """Rows that are dead already stay so."""
        found = self.positions(np.fromiter(rows, np.int64))
        found = np.unique(found[found >= 0])
        self._entries["alive"][found] = False
        self._num_alive -= len(found)

    def _make_room(self, count: int) -> None:
        known = self.entries
        if 2 * self._num_alive < self._size:
            known = known[known["alive"]]
        capacity = max(_SMALLEST, 2 * (len(known) + count))
        room = np.zeros(capacity, ENTRY)
        room[: len(known)] = known
        self._entries, self._size = room, len(known)
