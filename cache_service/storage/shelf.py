"""Shelf: all records of one namespace, by row and by digest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from threading import Lock, RLock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cache_service.storage.catalogue import Catalogue
from cache_service.storage.clock import Clock
from cache_service.storage.counters import Counters, room
from cache_service.storage.frames import frame_bytes
from cache_service.storage.paths import counted
from cache_service.storage.record import CONTEXT_AT, CONTEXT_BYTES, FEATURE_AT, Record, decode, encode, match, newest
from cache_service.storage.row_table import Rows
from cache_service.storage.segments import Segments
from cache_service.storage.usage import NO_COUNTS, Totals
from protos.draft_files import CONTEXT, Namespace


class Keeper(Protocol):
    """The store that a shelf stands in. writing: held by whoever changes files."""

    clock: Clock
    writing: RLock
    segment_bytes: int
    read_only: bool

    def check_writable(self) -> None: ...

    def make_room(self, namespace: Namespace, num_bytes: int) -> None: ...

    def note_growth(self) -> None: ...


class Shelf:
    """A row is the number of one record, for as long as the process lives. A record that is stored anew gets a new
    row, and the old one is dead; so is the row of a record that had to make room. Dead rows have no record.

    Thread-safe: readers wait neither for the disk nor for a compaction. segments, catalogue, counters: for whoever
    keeps the store in order, and holds its `writing`.
    """

    def __init__(self, namespace: Namespace, folder: Path, keeper: Keeper) -> None:
        """ValueError where a file in the folder cannot be understood."""
        self.namespace = namespace
        self.segments = Segments(folder, namespace, keeper.segment_bytes)
        self.catalogue = Catalogue(self.segments, keeper.clock)
        self.counters = Counters(folder)
        self._keeper = keeper
        self._totals: Counter[str] = Counter()
        self._saved = Totals()
        self._counting = Lock()
        if folder.exists():
            self._open()

    def __len__(self) -> int:
        """Records."""
        return len(self.catalogue)

    @property
    def num_bytes(self) -> int:
        """On the disk."""
        return self.segments.num_bytes + self.counters.num_bytes

    @property
    def live_bytes(self) -> int:
        """Of the records, without what is dead and what files have besides."""
        return sum(self.catalogue.live_bytes(number) for number in self.segments.by_number)

    @property
    def totals(self) -> Totals:
        """Until now."""
        with self._counting:
            return Totals(**self._totals)

    def append(self, records: Sequence[Record]) -> list[int]:
        """Their rows, once they are on the disk. A record whose digest is known takes the place of the older one.

        ValueError where one has no place here: then none is stored. OSError where the disk fails: then those that
        were not written yet are not stored.
        """
        with self._keeper.writing:
            self._keeper.check_writable()
            dated = [replace(record, seq=self._keeper.clock.tick()) for record in records]
            payloads = [self._encode(record) for record in dated]
            rows: list[int] = []
            for batch in batches([len(payload) for payload in payloads], self.segments.most):
                rows += self._store(dated[batch], payloads[batch])
        self._keeper.note_growth()
        return rows

    def record(self, row: int) -> Record | None:
        """None where the row is dead. The paths stand as they were stored; `count` has been added to their counts."""
        payload, more = self.catalogue.payload(row), self.catalogue.counts(row)
        if payload is None:
            return None
        record = decode(payload)
        if more == NO_COUNTS:
            return record
        return replace(
            record, paths=tuple(counted(path, count) for path, count in zip(record.paths, more, strict=False))
        )

    def row_of(self, digest: bytes) -> int | None:
        """None where no record has this digest."""
        return self.catalogue.row_of(digest)

    def alive(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of these rows have a record."""
        return self.catalogue.alive(rows)

    def live_rows(self) -> Rows:
        """Every row that has a record; the newest last."""
        return np.ascontiguousarray(self.catalogue.live_entries()["row"])

    def records(self) -> Iterator[Record]:
        """All that are there now, the oldest first; what has to make room meanwhile is left out."""
        for row in self.live_rows().tolist():
            record = self.record(row)
            if record is not None:
                yield record

    def contexts(self, rows: Rows) -> NDArray[np.int32]:
        """[rows, CONTEXT], right-aligned behind -1; only -1 where a row is dead."""
        content = self.catalogue.gather(rows, CONTEXT_AT, b"\xff" * CONTEXT_BYTES)
        return np.frombuffer(b"".join(content), "<i4").reshape(len(rows), CONTEXT)

    def features(self, rows: Rows) -> NDArray[np.float16]:
        """[rows, width]; zeros where a row is dead or its record has no feature."""
        width = self.namespace.width
        content = self.catalogue.gather(rows, FEATURE_AT, bytes(2 * width), needs="featured")
        return np.frombuffer(b"".join(content), "<f2").reshape(len(rows), width)

    def touch(self, *rows: int, hits: int = 0, accepted: int = 0) -> None:
        """Each record was used just now: it was found `hits` times, and `accepted` drafted tokens came from it.

        Nothing where a row is dead.
        """
        num_used = self.catalogue.use(rows, lambda usage: usage.add(hits=hits, accepted=accepted))
        if accepted:
            self._add_to_totals(accepted=num_used * accepted)

    def count(self, row: int, path_index: int) -> None:
        """One more text went on by this path of `record(row)`. Nothing where the row is dead."""
        self.catalogue.use((row,), lambda usage: usage.count(path_index))

    def tally(self, *, lookups: int, hits: int) -> None:
        """So many questions were asked, and so many of them found anything."""
        self._add_to_totals(lookups=lookups, hits=hits)

    def flush(self) -> None:
        """What was touched, counted and tallied is on the disk when this returns."""
        with self._keeper.writing:
            self._keeper.check_writable()
            num_changed, needed = self.catalogue.num_changed(), self.catalogue.used()
            anew = self.counters.outgrown(num_changed, len(needed))
            self._keeper.make_room(self.namespace, room(len(needed) if anew else num_changed))
            totals, changed = self.totals, self.catalogue.take_changed()
            if not len(self) or not (len(changed) or totals != self._saved):
                return
            try:
                if anew:
                    self.counters.rewrite(self.catalogue.to_save(needed), totals)
                else:
                    self.counters.append(self.catalogue.to_save(changed), totals)
            except OSError:
                self.catalogue.put_back(changed)
                raise
            self._saved = totals

    def evict(self, rows: Rows) -> Rows:
        """These have no record any more; those that had one. Their bytes go when their segments are rewritten."""
        killed = self.catalogue.kill(rows)
        self._add_to_totals(evictions=len(killed))
        return killed

    def _open(self) -> None:
        read_only = self._keeper.read_only
        entries, heads = self.segments.open(read_only=read_only)
        kept = newest(heads["digest"], heads["seq"])
        entries, heads = entries[kept], heads[kept]
        entries["used"] = heads["seq"]
        rows = self.catalogue.append(entries, heads["digest"])
        used, self._saved = self.counters.open(read_only=read_only)
        self._totals.update(asdict(self._saved))
        found = match(used["digest"], heads["digest"])
        used, found = used[found >= 0], found[found >= 0]
        self.catalogue.restore(rows[found], used, used["seq"] == heads["seq"][found])
        for ticks in (heads["seq"], used["used"]):
            self._keeper.clock.pass_by(int(ticks.max(initial=0)))

    def _add_to_totals(self, **more: int) -> None:
        with self._counting:
            self._totals.update(more)

    def _encode(self, record: Record) -> bytes:
        width = self.namespace.width
        if record.feature is not None and len(record.feature) != width:
            raise ValueError(f"a feature of {len(record.feature)} numbers; those of this namespace have {width}")
        payload = encode(record)
        if frame_bytes(len(payload)) > self.segments.most:
            raise ValueError(
                f"a record of {len(payload)} bytes does not fit into a draft file of {self.segments.most}:"
                " give the store a larger budget"
            )
        return payload

    def _store(self, records: Sequence[Record], payloads: Sequence[bytes]) -> list[int]:
        self._keeper.make_room(self.namespace, sum(frame_bytes(len(payload)) for payload in payloads))
        older = [self.catalogue.row_of(record.digest) for record in records]
        entries = self.segments.append(payloads)
        entries["used"] = [record.seq for record in records]
        entries["featured"] = [record.feature is not None for record in records]
        digests = np.array([record.digest for record in records], "V16")
        rows: list[int] = self.catalogue.append(entries, digests).tolist()
        last: dict[bytes, int] = {}
        replaced = []
        for record, row, known in zip(records, rows, older, strict=True):
            earlier = last.get(record.digest, known)
            last[record.digest] = row
            if earlier is not None:
                self.catalogue.inherit(row, earlier)
                replaced.append(earlier)
        self.catalogue.kill(np.array(replaced, np.int64))
        self._add_to_totals(insertions=len(rows))
        return rows


def batches(sizes: Sequence[int], most: int) -> Iterator[slice]:
    """Divides payloads of these sizes, so that the frames of each part have at most `most` bytes."""
    start, total = 0, 0
    for index, size in enumerate(sizes):
        if total + frame_bytes(size) > most and index > start:
            yield slice(start, index)
            start, total = index, 0
        total += frame_bytes(size)
    if start < len(sizes):
        yield slice(start, len(sizes))
