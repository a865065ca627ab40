"""Eviction: records make room when there are too many: those that were used least recently, of whatever namespace.

A record was used when it was stored, found, credited with tokens or followed by another text. One that was evicted is
not found any more; its bytes go with its segment, and until then a restart brings it back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cache_service.storage.compaction import clear, compact, dead_share, most_dead
from cache_service.storage.row_table import Rows
from cache_service.storage.shelf import Shelf

STEP = 1 / 32  # of the limit: so much is evicted at once
# Of a segment's records, by bytes, before it is compacted: the more is dead, the less is copied for a byte that is
# given back. Where the oldest are those that go, whole segments are dead and nothing is copied.
MIN_DEAD = 1 / 4


def fit(shelves: Sequence[Shelf], limit: int, evict: Callable[[Shelf, Rows], None]) -> bool:
    """One step towards `limit` bytes on the disk, in all these shelves; False where they are within it.

    The caller holds the store's `writing`.
    """
    if sum(shelf.num_bytes for shelf in shelves) <= limit:
        return False
    victim = most_dead(shelves)
    if victim is not None and dead_share(*victim) >= MIN_DEAD:
        compact(*victim)
        return True
    for shelf, rows in least_recent(shelves, int(STEP * limit)):
        evict(shelf, rows)
    for shelf in shelves:
        if not len(shelf):
            clear(shelf)
    return True


def least_recent(shelves: Sequence[Shelf], num_bytes: int) -> list[tuple[Shelf, Rows]]:
    """The fewest records, least recently used first, whose frames have `num_bytes` together; all, if that is less."""
    tables = [shelf.catalogue.live_entries() for shelf in shelves]
    if not tables:
        return []
    owners = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    table = np.concatenate(tables)
    order = np.argsort(table["used"], kind="stable")
    freed = np.cumsum(table["size"][order], dtype=np.int64)
    chosen = order[: int(np.searchsorted(freed, num_bytes)) + 1]
    return [(shelves[owner], table["row"][chosen[owners[chosen] == owner]]) for owner in np.unique(owners[chosen])]
