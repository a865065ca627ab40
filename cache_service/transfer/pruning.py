"""Pruning: what is to be deleted of a store, said before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cache_service.storage.eviction import least_recent
from cache_service.storage.header import HEADER_BYTES
from cache_service.storage.row_table import Rows
from cache_service.storage.shelf import Shelf
from cache_service.storage.store import Store
from protos.draft_files import Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """namespace, tenant: of whose records; None for all. unused_since: those used last before that time, in
    microseconds since 1970. budget_bytes: beyond so many, those used least recently. With neither: all of them."""

    namespace: Namespace | None = None
    tenant: str | None = None
    unused_since: int | None = None
    budget_bytes: int | None = None

    def concerns(self, namespace: Namespace) -> bool:
        """Whether records of a namespace may be deleted."""
        return self.namespace in (None, namespace) and self.tenant in (None, namespace.tenant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """records: deleted. freed_bytes: of the disk."""

    records: int
    freed_bytes: int


def chosen(store: Store, wish: Wish) -> list[tuple[Shelf, Rows]]:
    """The rows to delete first; more may follow where files have to become smaller than their records are."""
    shelves = [shelf for shelf in store.shelves() if wish.concerns(shelf.namespace)]
    if wish.unused_since is None and wish.budget_bytes is None:
        return [(shelf, shelf.live_rows()) for shelf in shelves]
    old = [(shelf, _unused(shelf, wish.unused_since)) for shelf in shelves] if wish.unused_since is not None else []
    if wish.budget_bytes is None:
        return old
    needed = sum(shelf.live_bytes + HEADER_BYTES + shelf.counters.num_bytes for shelf in shelves)
    over = needed - wish.budget_bytes
    # Those that are old are the least recently used ones: the larger of the two choices holds the other.
    beyond = least_recent(shelves, over) if over > 0 else []
    return max(old, beyond, key=count)


def count(rows: Sequence[tuple[Shelf, Rows]]) -> int:
    """Of all shelves."""
    return sum(len(each) for _, each in rows)


def size(rows: Sequence[tuple[Shelf, Rows]]) -> int:
    """Bytes of their records."""
    return sum(int(shelf.catalogue.entries(each)["size"].sum()) for shelf, each in rows)


def prune(store: Store, wish: Wish) -> Pruned:
    """Deletes, and gives the bytes back."""
    before, records = store.num_bytes, 0
    shelves = [shelf for shelf in store.shelves() if wish.concerns(shelf.namespace)]
    rows = chosen(store, wish)
    while True:
        for shelf, some in rows:
            records += len(shelf.evict(some))
        store.compact_now()
        over = sum(shelf.num_bytes for shelf in shelves) - (wish.budget_bytes or 0)
        if wish.budget_bytes is None or over <= 0:
            break
        rows = least_recent(shelves, over)  # what files have besides their records counts too
        if not count(rows):
            break
    return Pruned(records=records, freed_bytes=before - store.num_bytes)


def _unused(shelf: Shelf, since: int) -> Rows:
    entries = shelf.catalogue.live_entries()
    return np.ascontiguousarray(entries["row"][entries["used"] < since])
