"""HashIndex: from a 64-bit hash to the rows that have it, the newest first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cache_service.storage.row_table import Rows

MAX_RECENT = 8192  # entries that wait, in a dict, until they are merged into the sorted arrays
ENTRY_BYTES = 16

Hashes = NDArray[np.uint64]  # a search with another type of number would convert all of them


@dataclass(frozen=True, slots=True)
class _Entries:
    """`hashes` ascend; where they are equal, `rows` descend. recent: rows that came since, ascending."""

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    rows: Rows = field(default_factory=lambda: np.empty(0, np.int64))
    recent: dict[int, list[int]] = field(default_factory=dict)

    def span(self, hash_: np.uint64) -> tuple[int, int]:
        """Where the entries of a hash begin and end in the arrays."""
        first = int(self.hashes.searchsorted(hash_))
        if first == len(self.hashes) or self.hashes[first] != hash_:
            return first, first
        return first, int(self.hashes.searchsorted(hash_, side="right"))


class HashIndex:
    """ENTRY_BYTES an entry, and what at most MAX_RECENT entries take in a dict.

    One thread writes at a time. Readers need no lock and never wait: arrays are replaced as a whole, not changed.
    Rows ascend in the order in which they are added.
    """

    def __init__(self) -> None:
        self._entries = _Entries()
        self._num_recent = 0

    def __len__(self) -> int:
        return len(self._entries.hashes) + self._num_recent

    @property
    def num_bytes(self) -> int:
        """Of the arrays, once all is merged into them."""
        return ENTRY_BYTES * len(self)

    def add(self, hashes: Hashes, rows: Rows) -> None:
        """Adds entries whose rows are above all rows there are."""
        if self._num_recent + len(hashes) > MAX_RECENT:
            self._merge(hashes, rows)
            return
        recent = self._entries.recent
        for hash_, row in zip(hashes.tolist(), rows.tolist(), strict=True):
            recent.setdefault(hash_, []).append(row)
        self._num_recent += len(hashes)

    def find(self, hash_: np.uint64, limit: int) -> Rows:
        """Up to `limit` rows of a hash, the newest first."""
        entries = self._entries
        recent = entries.recent.get(int(hash_), [])[: -limit - 1 : -1]
        first, last = entries.span(hash_)
        older = entries.rows[first : min(last, first + limit - len(recent))]
        if not recent:
            return older
        return np.concatenate([np.array(recent, np.int64), older])

    def keep(self, lives: Callable[[Rows], NDArray[np.bool_]]) -> None:
        """Forgets the rows of which `lives` says no."""
        self._merge(np.empty(0, np.uint64), np.empty(0, np.int64))
        entries = self._entries
        kept = lives(entries.rows)
        self._entries = _Entries(entries.hashes[kept], entries.rows[kept])

    def _merge(self, hashes: Hashes, rows: Rows) -> None:
        """Takes recent entries, and these, into the arrays."""
        old = self._entries
        counts = [len(found) for found in old.recent.values()]
        hashes = np.concatenate([np.repeat(np.fromiter(old.recent, np.uint64), counts), hashes])
        rows = np.concatenate([np.fromiter((r for found in old.recent.values() for r in found), np.int64), rows])
        order = np.lexsort((-rows, hashes))
        hashes, rows = hashes[order], rows[order]
        places = old.hashes.searchsorted(hashes, side="left")
        self._entries = _Entries(np.insert(old.hashes, places, hashes), np.insert(old.rows, places, rows))
        self._num_recent = 0
