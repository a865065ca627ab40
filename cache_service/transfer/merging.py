"""Merging: records from elsewhere join those on a shelf, as often as one likes: nothing counts twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from cache_service.storage.paths import same_way
from cache_service.storage.record import Record
from cache_service.storage.shelf import Shelf
from protos.draft_files import MAX_PATHS, Path

LOT = 1024  # records that are on the disk together


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """stored: records that were new, or had something new. known: those of which the shelf had everything."""

    stored: int = 0
    known: int = 0

    def __add__(self, other: Merged) -> Merged:
        return Merged(stored=self.stored + other.stored, known=self.known + other.known)


def merge(shelf: Shelf, records: Iterable[Record], seen: Callable[[int], None]) -> Merged:
    """Stores what the shelf lacks, telling `seen` how many records are done; what was told is on the disk.

    Of two counts of a path the higher holds. How often a record was found is not taken over.
    """
    stored = known = 0
    coming = iter(records)
    while lot := list(islice(coming, LOT)):
        changed = [each for record in lot if (each := _joined(shelf, record)) is not None]
        shelf.append(changed)
        stored += len(changed)
        known += len(lot) - len(changed)
        seen(len(lot))
    return Merged(stored=stored, known=known)


def joined_paths(paths: Sequence[Path], more: Sequence[Path]) -> tuple[Path, ...]:
    """Those of both, each once, as far as there is room the most frequent ones. Those of `paths` stand first."""
    joined = list(paths)
    for path in (each for each in more if each not in paths):
        place = same_way(joined, path.tokens)
        if place is None:
            joined.append(path)
            continue
        old = joined[place]
        longer = max(old.tokens, path.tokens, key=len)
        joined[place] = Path(tokens=longer, count=max(old.count, path.count))
    kept = sorted(range(len(joined)), key=lambda place: (-joined[place].count, place))[:MAX_PATHS]
    return tuple(joined[place] for place in sorted(kept))


def _joined(shelf: Shelf, record: Record) -> Record | None:
    """What to store; None where nothing is new."""
    row = shelf.row_of(record.digest)
    old = None if row is None else shelf.record(row)
    if old is None:
        return record
    paths = joined_paths(old.paths, record.paths)
    feature = record.feature if old.feature is None else old.feature
    if paths == old.paths and feature is old.feature:
        return None
    return replace(old, paths=paths, feature=feature)
