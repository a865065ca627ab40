"""Shelf: all records of one namespace, by row and by digest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock, RLock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cache_service.clock import Clock
from cache_service.frames import PAYLOAD_AT, frame_bytes, payload_at
from cache_service.record import CONTEXT_AT, CONTEXT_BYTES, FEATURE_AT, Record, decode, encode
from cache_service.row_table import Rows, RowTable
from cache_service.segments import Segments
from cache_service.usage import Usage
from protos.draft_files import CONTEXT, Namespace


class Keeper(Protocol):
    """The store that a shelf stands in. writing: held by whoever changes files."""

    clock: Clock
    writing: RLock
    segment_bytes: int
    read_only: bool

    def make_room(self, namespace: Namespace, num_bytes: int) -> None: ...


class Shelf:
    """A row is the number of one record, for as long as the process lives. A record that is stored anew gets a new
    row, and the old one is dead; so is the row of a record that had to make room. Dead rows have no record.

    Thread-safe: readers wait neither for the disk nor for a compaction.
    """

    def __init__(self, namespace: Namespace, folder: Path, keeper: Keeper) -> None:
        self.namespace = namespace
        self._keeper = keeper
        self._segments = Segments(folder, namespace, keeper.segment_bytes)
        self._state = Lock()
        self._table = RowTable()
        self._rows: dict[bytes, int] = {}
        self._usages: dict[int, Usage] = {}
        if folder.exists():
            self._open()

    def __len__(self) -> int:
        """Records."""
        return len(self._table)

    @property
    def num_bytes(self) -> int:
        """On the disk."""
        return self._segments.num_bytes

    def append(self, records: Sequence[Record]) -> list[int]:
        """Their rows, once they are on the disk. A record whose digest is known takes the place of the older one.

        ValueError where one has no place here. OSError where the disk fails: then those of the last write are lost.
        """
        with self._keeper.writing:
            if self._keeper.read_only:
                raise ValueError(f"{self._segments.folder} was opened to be read; open the store without read_only")
            dated = [replace(record, seq=self._keeper.clock.tick()) for record in records]
            payloads = [self._encode(record) for record in dated]
            rows: list[int] = []
            start = 0
            for stop in self._batches(payloads):
                rows += self._store(dated[start:stop], payloads[start:stop])
                start = stop
        return rows

    def record(self, row: int) -> Record | None:
        """None where the row is dead. The paths stand as they were stored; `count` has been added to their counts."""
        with self._state:
            position = self._table.position(row)
            if position is None:
                return None
            entry = self._table.entries[position]
            view = self._segments.by_number[int(entry["segment"])].view()
            start = 8 * int(entry["start"])
            usage = self._usages.get(row)
            counts = None if usage is None else usage.counts
        payload = payload_at(view, start)
        if payload is None:
            return None
        record = decode(payload)
        return record if counts is None else _with_counts(record, counts)

    def touch(self, row: int, *, hits: int = 0, accepted: int = 0) -> None:
        """The record was used just now: it was found `hits` times, and `accepted` drafted tokens came from it.

        Nothing where the row is dead.
        """
        self._use(row, lambda usage: usage.add(hits=hits, accepted=accepted))

    def count(self, row: int, path_index: int) -> None:
        """One more text went on by this path of `record(row)`. Nothing where the row is dead."""
        self._use(row, lambda usage: usage.count(path_index))

    def _use(self, row: int, change: Callable[[Usage], None]) -> None:
        with self._state:
            position = self._table.position(row)
            if position is None:
                return
            self._table.entries["used"][position] = self._keeper.clock.tick()
            change(self._usages.setdefault(row, Usage()))

    def row_of(self, digest: bytes) -> int | None:
        """None where no record has this digest."""
        with self._state:
            return self._rows.get(digest)

    def alive(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of these rows have a record."""
        with self._state:
            return self._table.positions(rows) >= 0

    def live_rows(self) -> Rows:
        """Every row that has a record; the newest last."""
        with self._state:
            return self._table.live_rows()

    def contexts(self, rows: Rows) -> NDArray[np.int32]:
        """[rows, CONTEXT], right-aligned behind -1; only -1 where a row is dead."""
        content = self._gather(rows, CONTEXT_AT, b"\xff" * CONTEXT_BYTES)
        return np.frombuffer(content, "<i4").reshape(len(rows), CONTEXT)

    def features(self, rows: Rows) -> NDArray[np.float16]:
        """[rows, width]; zeros where a row is dead or its record has no feature."""
        width = self.namespace.width
        content = self._gather(rows, FEATURE_AT, bytes(2 * width))
        return np.frombuffer(content, "<f2").reshape(len(rows), width)

    def _gather(self, rows: Rows, at: int, blank: bytes) -> bytes:
        """`len(blank)` bytes of each row's payload, from `at`; `blank` where there are none."""
        with self._state:
            positions = self._table.positions(rows)
            entries = self._table.at(positions)
            there = positions >= 0
            if at == FEATURE_AT:
                there &= entries["featured"]
            numbers = entries["segment"].tolist()
            segments = self._segments.by_number
            views = {number: segments[number].view() for number in set(entries["segment"][there].tolist())}
        size = len(blank)
        starts = (8 * entries["start"].astype(np.int64) + PAYLOAD_AT + at).tolist()
        parts = [
            views[number][start : start + size] if known else blank
            for number, start, known in zip(numbers, starts, there.tolist(), strict=True)
        ]
        return b"".join(parts)

    def _open(self) -> None:
        entries, heads = self._segments.open(read_only=self._keeper.read_only)
        newest = _newest(heads)
        entries, heads = entries[newest], heads[newest]
        entries["used"] = heads["seq"]
        rows = self._table.append(entries)
        self._rows = dict(zip(heads["digest"].tolist(), rows.tolist(), strict=True))
        if len(heads):
            self._keeper.clock.pass_by(int(heads["seq"][-1]))

    def _encode(self, record: Record) -> bytes:
        width = self.namespace.width
        if record.feature is not None and len(record.feature) != width:
            raise ValueError(f"a feature of {len(record.feature)} numbers; those of this namespace have {width}")
        payload = encode(record)
        if frame_bytes(len(payload)) > self._segments.most():
            raise ValueError(
                f"a record of {len(payload)} bytes does not fit into a draft file of {self._segments.most()}:"
                " give the store a larger budget"
            )
        return payload

    def _batches(self, payloads: Sequence[bytes]) -> list[int]:
        """Where to divide them, so that each part fits into a segment."""
        stops, size = [], 0
        for index, payload in enumerate(payloads):
            if size + frame_bytes(len(payload)) > self._segments.most():
                stops.append(index)
                size = 0
            size += frame_bytes(len(payload))
        return [*stops, len(payloads)] if payloads else []

    def _store(self, records: Sequence[Record], payloads: Sequence[bytes]) -> list[int]:
        self._keeper.make_room(self.namespace, sum(frame_bytes(len(payload)) for payload in payloads))
        entries = self._segments.append(payloads)
        entries["used"] = [record.seq for record in records]
        entries["featured"] = [record.feature is not None for record in records]
        with self._state:
            rows: list[int] = self._table.append(entries).tolist()
            replaced = []
            for record, row in zip(records, rows, strict=True):
                earlier = self._rows.get(record.digest)
                if earlier is not None:
                    replaced.append(earlier)
                self._rows[record.digest] = row
            self._kill(replaced)
        return rows

    def _kill(self, rows: Iterable[int]) -> None:
        self._table.kill(rows)
        for row in rows:
            self._usages.pop(row, None)


def _with_counts(record: Record, more: tuple[int, ...]) -> Record:
    paths = (replace(path, count=path.count + count) for path, count in zip(record.paths, more, strict=False))
    return replace(record, paths=tuple(paths))


def _newest(heads: NDArray[np.void]) -> NDArray[np.int64]:
    """Of each digest the record with the highest seq; in the order of seq."""
    if not len(heads):
        return np.zeros(0, np.int64)
    halves = np.ascontiguousarray(heads["digest"]).view("<u8").reshape(-1, 2)
    order = np.lexsort((heads["seq"], halves[:, 1], halves[:, 0]))
    last = np.ones(len(order), bool)
    last[:-1] = (halves[order[1:]] != halves[order[:-1]]).any(axis=1)
    kept = order[last]
    return kept[np.argsort(heads["seq"][kept], kind="stable")]
