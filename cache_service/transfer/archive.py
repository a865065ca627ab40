"""Archive: draft files of any number of namespaces as one file, to be kept or carried elsewhere.

MAGIC, then frames (see cache_service.storage.frames). The first is the table of contents (msgpack: schema, when it was
made in seconds since 1970, the namespaces). Each other is a record behind the number of its namespace (uint32, little
endian); but the last one, behind _END, says how many records each namespace has. So a changed byte costs one record,
and is noticed.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgpack
import numpy as np

from cache_service.storage.disk import UNNAMED, sync_folder
from cache_service.storage.frames import PAYLOAD_AT, frame, payload_at, walk
from cache_service.storage.namespace import pack_namespace, unpack_namespace
from cache_service.storage.record import Record, decode, encode
from cache_service.storage.shelf import Shelf
from protos.draft_files import Namespace

MAGIC = b"PDcarry\n"
SCHEMA = 1
LOT = 1024  # records that are told of together
_NUMBER = struct.Struct("<I")
_END = 2**32 - 1  # number of no namespace


def write_archive(path: Path, shelves: Sequence[Shelf], seen: Callable[[int], None]) -> int:
    """Writes all records of the shelves, telling `seen` how many are done; how many they were.

    The file is there as a whole or not at all. ValueError where `path` holds something that is no archive.
    """
    _check_replaceable(path)
    unnamed = path.with_name(path.name + UNNAMED)
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            total = _write(file, shelves, seen)
            file.flush()
            os.fsync(file.fileno())
        unnamed.replace(path)
    finally:
        unnamed.unlink(missing_ok=True)
    sync_folder(path.parent)
    return total


def _check_replaceable(path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is no folder; make it, or give another file")
    if path.exists() and not _begins_well(path):
        raise ValueError(f"{path} is there and no archive of draft files; remove it, or give another name")


def _begins_well(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _write(file: BinaryIO, shelves: Sequence[Shelf], seen: Callable[[int], None]) -> int:
    namespaces = [pack_namespace(shelf.namespace) for shelf in shelves]
    file.write(MAGIC + frame(msgpack.packb([SCHEMA, int(time.time()), namespaces])))
    counts = []
    for number, shelf in enumerate(shelves):
        counts.append(0)
        records = shelf.records()
        while lot := list(islice(records, LOT)):
            file.writelines(frame(_NUMBER.pack(number) + encode(record)) for record in lot)
            counts[-1] += len(lot)
            seen(len(lot))
    file.write(frame(_NUMBER.pack(_END) + msgpack.packb(counts)))
    return sum(counts)


class Archive:
    """namespaces: those in it. counts: records of each that are whole. lost: records that are not; None where the end
    is missing, so that nobody knows how many there were."""

    def __init__(self, path: Path) -> None:
        """ValueError where the file is none, is of a newer schema, or has a damaged table of contents."""
        if not path.is_file() or not _begins_well(path):
            raise ValueError(f"{path} is no archive of draft files; give a file that `paradraft cache export` wrote")
        with path.open("rb") as file:
            self._view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self.namespaces = self._contents(path)
        walked = walk(self._view, len(MAGIC))
        numbers = [_NUMBER.unpack_from(self._view, place)[0] for place in (walked.starts + PAYLOAD_AT).tolist()]
        numbers[0] = _END  # the table of contents
        self._starts = walked.starts
        self._numbers = np.array(numbers, np.int64)
        self.counts = tuple(int((self._numbers == number).sum()) for number in range(len(self.namespaces)))
        self.lost = None
        if len(numbers) > 1 and numbers[-1] == _END:
            written = msgpack.unpackb(self._payload(int(walked.starts[-1]))[_NUMBER.size :])
            self.lost = sum(written) - sum(self.counts)

    def records(self, number: int) -> Iterator[Record]:
        """The whole records of a namespace, by its place."""
        for start in self._starts[self._numbers == number].tolist():
            yield decode(self._payload(start)[_NUMBER.size :])

    def _contents(self, path: Path) -> tuple[Namespace, ...]:
        contents = payload_at(self._view, len(MAGIC))
        if contents is None:
            raise ValueError(f"{path}: its table of contents is damaged, so nothing in it is sure; export it again")
        schema, _, packed = msgpack.unpackb(contents)
        if schema > SCHEMA:
            raise ValueError(
                f"{path} has schema {schema}, and this version of paradraft reads up to {SCHEMA}: upgrade it"
            )
        return tuple(unpack_namespace(each) for each in packed)

    def _payload(self, start: int) -> memoryview:
        payload = payload_at(self._view, start)
        assert payload is not None, "it was whole when the archive was opened"
        return payload
