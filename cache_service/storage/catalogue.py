"""Catalogue: which records a shelf has, in which segment each stands, and how each was used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cache_service.storage.clock import Clock
from cache_service.storage.counters import SAVED, USED, Saved
from cache_service.storage.frames import PAYLOAD_AT, payload_at
from cache_service.storage.hash_index import HashIndex
from cache_service.storage.record import DIGEST_AT, HEAD, MAX_COUNT
from cache_service.storage.row_table import Rows, RowTable
from cache_service.storage.segments import Segments
from cache_service.storage.usage import NO_COUNTS, Usage
from protos.draft_files import DIGEST_BYTES

_DIGEST_AT = PAYLOAD_AT + DIGEST_AT  # in a frame
_FORGET = 8192  # dead rows, at least, before their digests are forgotten


class Catalogue:
    """Any thread reads, and none waits for the disk. One thread at a time appends, moves and kills."""

    def __init__(self, segments: Segments, clock: Clock) -> None:
        self._segments = segments
        self._clock = clock
        self._lock = Lock()
        self._table = RowTable()
        self._digests = HashIndex()
        self._usages: dict[int, Usage] = {}
        self._changed: set[int] = set()

    def __len__(self) -> int:
        """Records."""
        return len(self._table)

    def append(self, entries: NDArray[np.void], digests: NDArray[np.void]) -> Rows:
        """New rows for records that stand where `entries` say."""
        with self._lock:
            rows = self._table.append(entries)
        self._digests.add(_keys(digests), rows)
        if len(self._digests) > 2 * len(self._table) + _FORGET:
            self._digests.keep(self.alive)
        return rows

    def kill(self, rows: Rows) -> Rows:
        """Those that were alive until now."""
        with self._lock:
            killed = self._table.kill(rows)
            for row in killed.tolist():
                self._usages.pop(row, None)
                self._changed.discard(row)
        return killed

    def move(self, rows: Rows, entries: NDArray[np.void]) -> None:
        """The records of these rows stand where `entries` say; those that are dead stay so."""
        with self._lock:
            alive = self._table.positions(rows) >= 0
            self._table.move(rows[alive], entries[alive])

    def retire(self, number: int) -> None:
        """Removes a segment in which nothing lives."""
        with self._lock:
            segment = self._segments.retire(number)
            self._table.live_bytes.pop(number, None)
        segment.unlink()

    def live_bytes(self, number: int) -> int:
        """Of the frames of living records in a segment."""
        return self._table.live_bytes.get(number, 0)

    def in_segment(self, number: int) -> Rows:
        """Rows whose records stand there."""
        with self._lock:
            return self._table.in_segment(number)

    def entries(self, rows: Rows) -> NDArray[np.void]:
        """ENTRY [rows]; anything where a row is dead."""
        with self._lock:
            return self._table.at(self._table.positions(rows))

    def alive(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of these rows have a record."""
        with self._lock:
            return self._table.positions(rows) >= 0

    def live_entries(self) -> NDArray[np.void]:
        """ENTRY [records], the newest last."""
        with self._lock:
            return self._table.live()

    def row_of(self, digest: bytes) -> int | None:
        """The newest living row of a digest; None where there is none."""
        key = np.uint64(int.from_bytes(digest[:8], "little"))
        for row in self._digests.find(key, len(self._digests)).tolist():
            found = self._frame(row)
            if found is None:
                continue
            view, start = found
            if view[start + _DIGEST_AT : start + _DIGEST_AT + DIGEST_BYTES] == digest:
                return int(row)
        return None

    def payload(self, row: int) -> memoryview | None:
        """None where the row is dead, or its bytes are not what was written."""
        found = self._frame(row)
        return None if found is None else payload_at(*found)

    def _frame(self, row: int) -> tuple[memoryview, int] | None:
        """A map, and where in it the frame of a row begins."""
        with self._lock:
            place = self._table.place(row)
            if place is None:
                return None
            number, start = place
            return self._segments.by_number[number].view(), start

    def gather(self, rows: Rows, at: int, blank: bytes, *, needs: str = "alive") -> list[memoryview | bytes]:
        """`len(blank)` bytes of each row's payload, from `at`; `blank` where a row is dead.

        needs: column of the table; `blank` also where it says no.
        """
        with self._lock:
            positions = self._table.positions(rows)
            entries = self._table.at(positions)
            there = (positions >= 0) & entries[needs]
            segments = self._segments.by_number
            views = {number: segments[number].view() for number in set(entries["segment"][there].tolist())}
        size = len(blank)
        starts = (8 * entries["start"].astype(np.int64) + PAYLOAD_AT + at).tolist()
        places = zip(entries["segment"].tolist(), starts, there.tolist(), strict=True)
        return [views[number][start : start + size] if known else blank for number, start, known in places]

    def use(self, rows: Sequence[int], change: Callable[[Usage], None]) -> int:
        """Notes that records were used just now; how many of the rows have one."""
        with self._lock:
            living = {row: position for row in rows if (position := self._table.position(row)) is not None}
            used, now = self._table.entries["used"], self._clock.tick()
            for row, position in living.items():
                change(self._usages.setdefault(row, Usage()))
                used[position] = now
            self._changed.update(living)
        return len(living)

    def inherit(self, row: int, older: int) -> None:
        """What is known of `older` is true of `row`, but for the counts of its paths."""
        with self._lock:
            usage = self._usages.get(older)
            if usage is not None and self._table.position(row) is not None:
                self._usages[row] = Usage(hits=usage.hits, accepted=usage.accepted)
                self._changed.add(row)

    def counts(self, row: int) -> tuple[int, ...]:
        """Texts that took each path since the record was stored."""
        usage = self._usages.get(row)
        return NO_COUNTS if usage is None else usage.counts

    def used(self) -> Rows:
        """Rows of which there is anything to save."""
        with self._lock:
            return np.array(sorted(self._usages), np.int64)

    def num_changed(self) -> int:
        """Rows whose use is not saved."""
        return len(self._changed)

    def take_changed(self) -> Rows:
        """Rows whose use is not saved; it counts as saved from now on."""
        with self._lock:
            changed, self._changed = self._changed, set()
        return np.array(sorted(changed), np.int64)

    def put_back(self, rows: Rows) -> None:
        """Their use was not saved after all."""
        with self._lock:
            self._changed.update(row for row in rows.tolist() if row in self._usages)

    def to_save(self, rows: Rows) -> Saved:
        """What is to be saved of these rows."""
        heads = np.frombuffer(b"".join(self.gather(rows, 0, bytes(HEAD.itemsize))), HEAD)
        saved = np.zeros(len(rows), SAVED)
        saved["kind"], saved["digest"], saved["seq"] = USED, heads["digest"], heads["seq"]
        with self._lock:
            saved["used"] = self._table.at(self._table.positions(rows))["used"]
            usages = [self._usages.get(row, Usage()) for row in rows.tolist()]
        for name in ("hits", "accepted", "counts"):
            values = [getattr(usage, name) for usage in usages]
            saved[name] = np.minimum(np.array(values, np.int64).reshape(saved[name].shape), MAX_COUNT)
        return saved[saved["seq"] > 0]

    def restore(self, rows: Rows, saved: Saved, same_record: NDArray[np.bool_]) -> None:
        """Takes in what was saved of these rows; the counts only where it is of the `same_record`."""
        with self._lock:
            used = self._table.entries["used"]
            positions = self._table.positions(rows)
            used[positions] = np.maximum(used[positions], saved["used"])
            columns = (rows, saved["hits"], saved["accepted"], saved["counts"], same_record)
            for row, hits, accepted, counts, same in zip(*(column.tolist() for column in columns), strict=True):
                self._usages[row] = Usage(hits=hits, accepted=accepted, counts=tuple(counts) if same else NO_COUNTS)


def _keys(digests: NDArray[np.void]) -> NDArray[np.uint64]:
    return np.ascontiguousarray(digests).view("<u8").reshape(-1, 2)[:, 0].copy()
