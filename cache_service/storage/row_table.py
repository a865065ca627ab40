"""RowTable: where the record of each row stands, how much room it takes and when it was last used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

ENTRY = np.dtype(
    [
        ("row", "<i8"),
        ("used", "<i8"),  # ticks of the clock
        ("segment", "<i4"),  # its number
        ("start", "<u4"),  # of the frame in the segment, in units of 8 bytes
        ("size", "<u4"),  # bytes of the frame
        ("alive", "?"),
        ("featured", "?"),  # the record has a feature
    ]
)
_SMALLEST = 1024


class RowTable:
    """Rows count up and are never used again. What is known of dead ones is forgotten when they are most of the table.

    Positions are where a row stands in the table; they change with `append`. live_bytes: of the frames of living rows,
    by segment.
    """

    def __init__(self) -> None:
        self._entries = np.zeros(_SMALLEST, ENTRY)
        self._size = 0
        self._next = 0
        self._num_alive = 0
        self.live_bytes: dict[int, int] = {}

    def __len__(self) -> int:
        """Rows that are alive."""
        return self._num_alive

    @property
    def entries(self) -> NDArray[np.void]:
        """ENTRY [rows known], rows ascending; a view."""
        return self._entries[: self._size]

    def append(self, entries: NDArray[np.void]) -> Rows:
        """New rows, alive; their numbers."""
        if self._size + len(entries) >= len(self._entries):
            self._make_room(len(entries))
        positions = np.arange(self._size, self._size + len(entries))
        rows = np.arange(self._next, self._next + len(entries), dtype=np.int64)
        known = self._entries[self._size : self._size + len(entries)]
        known[:] = entries
        known["row"], known["alive"] = rows, True
        self._size += len(entries)
        self._next += len(entries)
        self._num_alive += len(entries)
        self._account(positions, 1)
        return rows

    def at(self, positions: Rows) -> NDArray[np.void]:
        """ENTRY [positions], copied; anything where a position is -1."""
        return self._entries.take(positions)  # several times faster than an index, of whole entries

    def positions(self, rows: Rows) -> Rows:
        """-1 where a row is dead or was never given."""
        last = len(self._entries) - 1  # no row is there
        if self._size == self._next:  # no row was forgotten
            found = np.minimum(np.asarray(rows, np.int64).view(np.uint64), last).view(np.int64)  # -1 is very large so
        else:
            known = self.entries["row"]
            found = np.searchsorted(known, rows)
            found = np.where(self._entries["row"][found] == rows, found, last)
        return np.where(self._entries["alive"][found], found, -1)

    def position(self, row: int) -> int | None:
        """None where the row is dead or was never given."""
        place = row if self._size == self._next else int(self.entries["row"].searchsorted(row))
        if not 0 <= place < self._size:
            return None
        found, _, _, _, _, alive, _ = self._entries[place].item()
        return place if alive and found == row else None

    def place(self, row: int) -> tuple[int, int] | None:
        """The segment's number, and where in it the frame begins; None where the row is dead or was never given."""
        position = self.position(row)
        if position is None:
            return None
        _, _, segment, start, _, _, _ = self._entries[position].item()
        return segment, 8 * start

    def live(self) -> NDArray[np.void]:
        """ENTRY [rows alive], rows ascending."""
        known: NDArray[np.void] = self.entries[self.entries["alive"]]
        return known

    def in_segment(self, number: int) -> Rows:
        """Rows whose records stand there."""
        known = self.entries
        return np.ascontiguousarray(known["row"][(known["segment"] == number) & known["alive"]])

    def kill(self, rows: Rows) -> Rows:
        """Those that were alive until now."""
        found = self.positions(rows)
        found = np.unique(found[found >= 0])
        self._entries["alive"][found] = False
        self._num_alive -= len(found)
        self._account(found, -1)
        return np.ascontiguousarray(self._entries["row"][found])

    def move(self, rows: Rows, entries: NDArray[np.void]) -> None:
        """The records of these rows, all alive, stand where `entries` say."""
        found = self.positions(rows)
        self._account(found, -1)
        for name in ("segment", "start", "size"):
            self._entries[name][found] = entries[name]
        self._account(found, 1)

    def _account(self, positions: Rows, sign: int) -> None:
        entries = self._entries.take(positions)
        sizes = entries["size"].astype(np.int64)
        for number in np.unique(entries["segment"]).tolist():
            there = sign * int(sizes[entries["segment"] == number].sum())
            self.live_bytes[number] = self.live_bytes.get(number, 0) + there

    def _make_room(self, count: int) -> None:
        known = self.entries
        if 2 * self._num_alive < self._size:
            known = known[known["alive"]]
        capacity = max(_SMALLEST, 2 * (len(known) + count))
        room = np.zeros(capacity, ENTRY)
        room[: len(known)] = known
        self._entries, self._size = room, len(known)
