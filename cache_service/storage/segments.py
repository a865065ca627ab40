"""Segments: the draft files of one namespace, in one folder; the last one grows."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cache_service.storage import disk
from cache_service.storage.frames import frame_bytes
from cache_service.storage.header import HEADER_BYTES
from cache_service.storage.namespace import directory_name
from cache_service.storage.record import HEAD, well_formed
from cache_service.storage.row_table import ENTRY
from cache_service.storage.segment import SUFFIX, Segment
from protos.draft_files import Namespace

logger = logging.getLogger(__name__)
_NAME = re.compile(rf"([0-9]{{8}}|[1-9][0-9]{{8}}){re.escape(SUFFIX)}")  # one for each number that fits a row's entry

Opened = tuple[NDArray[np.void], NDArray[np.void]]  # ENTRY [n], HEAD [n]


class Segments:
    """segment_bytes: size of a file that is full. num_bytes: of all files."""

    def __init__(self, folder: Path, namespace: Namespace, segment_bytes: int) -> None:
        self.folder = folder
        self.namespace = namespace
        self.by_number: dict[int, Segment] = {}
        self._segment_bytes = segment_bytes
        self._next = 1
        self.num_bytes = 0

    def open(self, *, read_only: bool) -> Opened:
        """What the files hold: ENTRY [n], HEAD [n]. Unfinished tails are cut, unless `read_only`.

        ValueError where a file is foreign, newer or of another namespace. FileNotFoundError where one was compacted
        away by another process meanwhile.
        """
        if not read_only:
            for unnamed in self.folder.glob(f"*{disk.UNNAMED}"):
                unnamed.unlink()
        self.by_number, self.num_bytes = {}, 0
        entries, heads = [np.zeros(0, ENTRY)], [np.zeros(0, HEAD)]
        for path in segment_paths(self.folder):
            segment = Segment.open(path)
            if segment is None:
                logger.warning("%s was cut within its header and holds nothing", path)
                if not read_only:
                    path.unlink()
                continue
            if segment.namespace != self.namespace:
                raise ValueError(
                    f"{path} holds drafts of {segment.namespace}, and this folder is of {self.namespace}:"
                    f" move the file to the folder {directory_name(segment.namespace)}, or out of the store"
                )
            found = _read(segment, read_only=read_only)
            entries.append(found[0])
            heads.append(found[1])
            self.by_number[segment.number] = segment
            self.num_bytes += segment.num_bytes
            self._next = max(self._next, segment.number + 1)
        return np.concatenate(entries), np.concatenate(heads)

    def append(self, payloads: Sequence[bytes | memoryview]) -> NDArray[np.void]:
        """ENTRY [payloads] once they are on the disk; they must fit into one segment, and stand in one."""
        num_bytes = sum(frame_bytes(len(payload)) for payload in payloads)
        segment = self.by_number.get(self._next - 1)
        if segment is None or segment.sealed or segment.num_bytes + num_bytes > self._segment_bytes:
            segment = self.roll()
        entries = np.zeros(len(payloads), ENTRY)
        before = segment.num_bytes
        entries["start"] = np.array(segment.append(payloads), np.int64) // 8
        self.num_bytes += segment.num_bytes - before
        entries["size"] = [frame_bytes(len(payload)) for payload in payloads]
        entries["segment"] = segment.number
        return entries

    def roll(self) -> Segment:
        """A new segment, which takes what comes."""
        disk.make_folder(self.folder)
        segment = Segment.create(self.folder, self._next, self.namespace)
        self._next += 1
        self.num_bytes += segment.num_bytes
        # Readers go through the dict while it is replaced.
        self.by_number = {**self.by_number, segment.number: segment}
        return segment

    def retire(self, number: int) -> Segment:
        """Takes a segment out, for whoever unlinks its file; the last one takes nothing more."""
        # Readers go through the dict while it is replaced.
        segment = self.by_number[number]
        self.num_bytes -= segment.num_bytes
        self.by_number = {other: kept for other, kept in self.by_number.items() if other != number}
        return segment

    def unmap(self) -> None:
        """Until their next views."""
        for segment in self.by_number.values():
            segment.unmap()

    def remove_folder(self) -> None:
        """When it has no draft files any more. What others put there stays."""
        for unnamed in self.folder.glob(f"*{disk.UNNAMED}"):
            unnamed.unlink()
        with suppress(OSError):
            self.folder.rmdir()

    @property
    def most(self) -> int:
        """Bytes of frames that fit into one segment."""
        return self._segment_bytes - HEADER_BYTES


def segment_paths(folder: Path) -> list[Path]:
    """The draft files in a folder, the oldest first; ValueError where one has not the name of one, or is no file."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    for path in paths:
        if not _NAME.fullmatch(path.name):
            raise ValueError(f"{path} is not named as a draft file is, such as 00000001{SUFFIX}; move it away")
        if path.is_dir() or (path.is_symlink() and not path.exists()):
            raise ValueError(f"{path} is named as a draft file is, but it is a folder or a broken link; move it away")
    return sorted(paths, key=lambda path: int(path.stem))


def _read(segment: Segment, *, read_only: bool) -> Opened:
    if read_only:
        segment.keep_mapped()
    found = segment.walk()
    heads = segment.heads(found)
    keep = well_formed(heads, found.sizes, segment.namespace.width)
    if not keep.all():
        logger.warning("%s: %d records are not well formed and are left out", segment.path, int((~keep).sum()))
    if not read_only:
        segment.cut(found.end)
        segment.unmap()
    entries = np.zeros(int(keep.sum()), ENTRY)
    entries["start"] = found.starts[keep] // 8
    entries["size"] = found.frame_sizes[keep]
    entries["segment"] = segment.number
    entries["featured"] = heads["width"][keep] > 0
    return entries, heads[keep]
