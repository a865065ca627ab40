"""Counters: the file that keeps how records were used, and a namespace's totals, across restarts.

An append-only file of entries of one size, each with the CRC-32 of what follows it. The last entry of a digest holds,
and the last totals. It is written anew once it has several times as many entries as are needed.
"""

from __future__ import annotations

import logging
import struct
from dataclasses import astuple, fields
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cache_service.storage import disk
from cache_service.storage.record import newest
from cache_service.storage.usage import Totals
from protos.draft_files import MAX_PATHS

NAME = "counters.journal"
MAGIC = b"PDcount\n"
SCHEMA = 1
USED, TOTALS = 1, 2  # kinds of entries
SAVED = np.dtype(
    [
        ("check", "<u4"),
        ("kind", "<u4"),
        ("digest", "V16"),
        ("seq", "<i8"),  # of the record that `counts` is of
        ("used", "<i8"),
        ("hits", "<u4"),
        ("accepted", "<u4"),
        ("counts", "<u4", (MAX_PATHS,)),
    ]
)
SPARE = 4  # entries in the file for each that is needed
SMALLEST = 64  # entries that are always allowed
_TOTALS = np.dtype([("check", "<u4"), ("kind", "<u4"), ("numbers", "<u8", ((SAVED.itemsize - 8) // 8,))])
_HEADER = struct.Struct("<8sII")  # magic, schema, CRC-32 of these two
logger = logging.getLogger(__name__)

Saved = NDArray[np.void]  # SAVED [n]


class Counters:
    """One thread writes. num_bytes: of the file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self.num_bytes = 0

    def open(self, *, read_only: bool) -> tuple[Saved, Totals]:
        """The last entry of each digest, and the totals; damaged entries are left out, and the file is mended.

        ValueError where the file is foreign or of a newer schema.
        """
        if not self._path.exists():
            return np.zeros(0, SAVED), Totals()
        content = self._path.read_bytes()
        self.num_bytes = len(content)
        num_entries = max(0, len(content) - _HEADER.size) // SAVED.itemsize
        entries = np.frombuffer(content[_HEADER.size :], SAVED, num_entries)
        raw = [content[start : start + SAVED.itemsize] for start in range(_HEADER.size, len(content), SAVED.itemsize)]
        whole = np.array([len(entry) == SAVED.itemsize and _is_whole(entry) for entry in raw], bool)
        self._check_header(content, any_whole=bool(whole.any()))
        entries = entries[whole[:num_entries]]
        totals = _read_totals(entries[entries["kind"] == TOTALS])
        used = entries[entries["kind"] == USED]
        used = used[newest(used["digest"], np.arange(len(used)))]
        if not whole.all() or not content.startswith(_header()):
            logger.warning("%s: %d entries are damaged and left out", self._path, int((~whole).sum()))
            if not read_only:
                self.rewrite(used, totals)
        return used, totals

    def outgrown(self, num_changed: int, num_needed: int) -> bool:
        """Whether the file, with so many entries more, had far more than it needs: then it is time for `rewrite`."""
        return self.num_bytes // SAVED.itemsize + num_changed > SPARE * max(num_needed, SMALLEST)

    def append(self, entries: Saved, totals: Totals) -> None:
        """Adds to the file; on return it is on the disk."""
        if not self.num_bytes:
            self.rewrite(entries, totals)
            return
        content = _pack(entries, totals)
        disk.extend(self._path, self.num_bytes, content)
        self.num_bytes += len(content)

    def rewrite(self, entries: Saved, totals: Totals) -> None:
        """The file has only these from now on; on return it is on the disk."""
        content = _header() + _pack(entries, totals)
        disk.replace(self._path, content)
        self.num_bytes = len(content)

    def unlink(self) -> None:
        """Removes the file."""
        self._path.unlink(missing_ok=True)
        self.num_bytes = 0

    def _check_header(self, content: bytes, *, any_whole: bool) -> None:
        head = content[: _HEADER.size]
        if len(head) == _HEADER.size:
            magic, schema, check = _HEADER.unpack(head)
            if magic == MAGIC and check == crc32(head[:-4]):
                if schema > SCHEMA:
                    raise ValueError(
                        f"{self._path} has schema {schema}, and this version of paradraft reads up to {SCHEMA}:"
                        " upgrade it, or give another directory of draft files"
                    )
                return
        if not any_whole and not (head + MAGIC[len(head) :]).startswith(MAGIC):
            raise ValueError(
                f"{self._path} is not a file of counters: it begins with {head[: len(MAGIC)]!r};"
                " move it out of this directory"
            )


def room(num_entries: int) -> int:
    """Bytes of a file with so many entries, and the totals."""
    return _HEADER.size + (num_entries + 1) * SAVED.itemsize


def _header() -> bytes:
    head = struct.pack("<8sI", MAGIC, SCHEMA)
    return head + struct.pack("<I", crc32(head))


def _pack(entries: Saved, totals: Totals) -> bytes:
    last = np.zeros(1, _TOTALS)
    last["kind"] = TOTALS
    numbers = astuple(totals)
    last["numbers"][0, : len(numbers)] = numbers
    content = entries.tobytes() + last.tobytes()
    checked = [content[start + 4 : start + SAVED.itemsize] for start in range(0, len(content), SAVED.itemsize)]
    return b"".join(struct.pack("<I", crc32(entry)) + entry for entry in checked)


def _is_whole(entry: bytes) -> bool:
    return int.from_bytes(entry[:4], "little") == crc32(entry[4:])


def _read_totals(entries: Saved) -> Totals:
    if not len(entries):
        return Totals()
    numbers = entries[-1:].view(_TOTALS)["numbers"][0].tolist()
    return Totals(**{field.name: number for field, number in zip(fields(Totals), numbers, strict=False)})
