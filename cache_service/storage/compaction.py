"""Compaction: gives back the bytes of dead records. What lives in a segment is stored again, then its file goes.

Nothing is renamed and nothing is marked: until the file is gone both hold the record, and of two with one digest the
one with the higher seq holds, so that a crash at any point loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from cache_service.storage.frames import payload_at
from cache_service.storage.header import HEADER_BYTES
from cache_service.storage.shelf import Shelf, batches

logger = logging.getLogger(__name__)

MOSTLY = 1 / 2


def dead_bytes(shelf: Shelf, number: int) -> int:
    """Of a segment: what a compaction gives back."""
    return shelf.segments.by_number[number].num_bytes - HEADER_BYTES - shelf.catalogue.live_bytes(number)


def dead_share(shelf: Shelf, number: int) -> float:
    """The same of all frames in the segment."""
    return dead_bytes(shelf, number) / max(1, shelf.segments.by_number[number].num_bytes - HEADER_BYTES)


def most_dead(shelves: Sequence[Shelf]) -> tuple[Shelf, int] | None:
    """The segment that gives back most; None where none gives anything."""
    segments = [(shelf, number) for shelf in shelves for number in shelf.segments.by_number]
    victim = max(segments, key=lambda segment: dead_bytes(*segment), default=None)
    return victim if victim is not None and dead_bytes(*victim) else None


def compact_mostly_dead(shelves: Sequence[Shelf]) -> bool:
    """Rewrites one full segment of which less than half is alive; False where there is none."""
    for shelf in shelves:
        for number in list(shelf.segments.by_number)[:-1]:
            if dead_share(shelf, number) > MOSTLY:
                compact(shelf, number)
                return True
    return False


def compact(shelf: Shelf, number: int) -> None:
    """Rewrites one segment. The caller holds the store's `writing`."""
    segment = shelf.segments.by_number[number]
    segment.sealed = True
    rows = shelf.catalogue.in_segment(number)
    entries = shelf.catalogue.entries(rows)
    view = segment.view()
    payloads = [payload_at(view, start) for start in (8 * entries["start"].astype(np.int64)).tolist()]
    lost = np.array([payload is None for payload in payloads], bool)
    if lost.any():
        logger.warning("%s: %d records are lost, whose bytes have changed", segment.path, int(lost.sum()))
        shelf.evict(rows[lost])
    kept, whole = rows[~lost], [payload for payload in payloads if payload is not None]
    for batch in batches([len(payload) for payload in whole], shelf.segments.most):
        moved = shelf.segments.append(whole[batch])
        shelf.catalogue.move(kept[batch], moved)
    shelf.catalogue.retire(number)


def clear(shelf: Shelf) -> None:
    """Removes the files of a shelf in which nothing lives. The caller holds the store's `writing`."""
    shelf.counters.unlink()
    for number in sorted(shelf.segments.by_number):
        shelf.catalogue.retire(number)
    shelf.segments.remove_folder()
