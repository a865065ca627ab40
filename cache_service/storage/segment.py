"""Segment: one draft file, append-only. What `append` has returned for is on the disk."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cache_service.storage import disk
from cache_service.storage.frames import PAYLOAD_AT, Walk, align, frame, walk
from cache_service.storage.header import HEADER_BYTES, begins_header, decode_header, encode_header
from cache_service.storage.maps import Map
from cache_service.storage.record import HEAD
from protos.draft_files import Namespace

SUFFIX = ".draft"
logger = logging.getLogger(__name__)


class Segment:
    """One writer; any number of readers, also while it writes.

    number: orders the segments of a namespace. num_bytes: of the file. sealed: takes nothing more, because it is full
    or because the disk failed it.
    """

    def __init__(self, path: Path, namespace: Namespace, num_bytes: int) -> None:
        self.path = path
        self.namespace = namespace
        self.number = int(path.stem)
        self.num_bytes = num_bytes
        self.sealed = False
        self._map = Map(path)

    @classmethod
    def create(cls, folder: Path, number: int, namespace: Namespace) -> Segment:
        """A segment without records. It has its name only when its header is on the disk."""
        path = folder / f"{number:08d}{SUFFIX}"
        disk.replace(path, encode_header(namespace))
        return cls(path, namespace, HEADER_BYTES)

    @classmethod
    def open(cls, path: Path) -> Segment | None:
        """None where the file was cut within its header, and so holds nothing.

        ValueError where it is foreign or of a newer schema; it names the file and what to do.
        """
        namespace = cls.namespace_of(path)
        return None if namespace is None else cls(path, namespace, path.stat().st_size)

    @staticmethod
    def namespace_of(path: Path) -> Namespace | None:
        """The same of its namespace alone."""
        with path.open("rb") as file:
            content = file.read(HEADER_BYTES)
        return None if begins_header(content) else decode_header(content, path)

    def walk(self) -> Walk:
        """What the file holds; damage is logged."""
        found = walk(self.view(), HEADER_BYTES)
        if found.damaged:
            logger.warning("%s: records are lost at %d places, where bytes have changed", self.path, found.damaged)
        return found

    def heads(self, walked: Walk) -> NDArray[np.void]:
        """HEAD [n] of the payloads that a walk has found, whether or not these are records."""
        view = self.view()
        places = (walked.starts + PAYLOAD_AT).tolist()
        return np.frombuffer(b"".join([view[place : place + HEAD.itemsize] for place in places]), HEAD)

    def cut(self, end: int) -> None:
        """Takes off the tail behind `end`: of an append that was never acknowledged."""
        if end == self.num_bytes:
            return
        logger.warning("%s: cut %d bytes of an append that was not finished", self.path, self.num_bytes - end)
        self.unmap()
        os.truncate(self.path, end)
        self.num_bytes = end

    def append(self, payloads: Sequence[bytes | memoryview]) -> list[int]:
        """Where the payloads' frames begin, once they are written and on the disk.

        OSError where the disk is full or fails; then nothing is acknowledged and the segment is sealed.
        """
        frames = [frame(payload) for payload in payloads]
        end = align(self.num_bytes)
        starts = []
        for content in frames:
            starts.append(end)
            end += len(content)
        try:
            disk.extend(self.path, align(self.num_bytes), b"".join(frames))
        except OSError:
            self.sealed = True
            raise
        self.num_bytes = end
        return starts

    def view(self) -> memoryview:
        """The whole file, mapped. What was appended later is seen by views that are taken later."""
        return self._map.view(self.num_bytes)

    def keep_mapped(self) -> None:
        """So that it stays readable, although another process may unlink it."""
        self._map.view_for_good(self.num_bytes)

    def unmap(self) -> None:
        """Until the next view."""
        self._map.close()

    def unlink(self) -> None:
        """Removes the file. Views taken before stay readable."""
        self._map.close()
        self.path.unlink(missing_ok=True)
