"""Surveys: what a directory of draft files holds, and what one draft file does, read beside whoever writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from cache_service.counters import Counters
from cache_service.frames import PAYLOAD_AT, frame_bytes
from cache_service.header import HEADER_BYTES
from cache_service.namespace import directory_name
from cache_service.record import HEAD, newest, well_formed
from cache_service.segment import Segment
from cache_service.segments import Segments, segment_paths
from cache_service.usage import Totals
from protos.draft_files import Namespace

ATTEMPTS = 3  # at reading files that a compaction may remove meanwhile

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceSurvey:
    """files, num_bytes: on the disk, what a compaction will free included. records: that live; paths: of these.

    last_used: microseconds since 1970. totals: as they were last written down.
    """

    namespace: Namespace
    folder: Path
    files: int
    num_bytes: int
    records: int
    paths: int
    last_used: int
    totals: Totals

    @property
    def id(self) -> str:
        """The folder's name, which is how a namespace is named on a command line."""
        return directory_name(self.namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSurvey:
    """records: whole ones, superseded ones included. malformed: frames that are whole but no records of this namespace.

    damaged: places where bytes are not what was written, with damaged_bytes in all. tail_bytes: of an append that was
    never finished. first, last: when records were stored, microseconds since 1970; 0 where there are none.
    """

    namespace: Namespace
    num_bytes: int
    records: int
    malformed: int
    damaged: int
    damaged_bytes: int
    tail_bytes: int
    first: int
    last: int


def survey(directory: Path) -> list[NamespaceSurvey]:
    """Of each namespace, the last used first. ValueError where a file is foreign, newer or in another's folder."""

    def read() -> list[NamespaceSurvey]:
        folders = [path for path in _existing(directory).iterdir() if path.is_dir()]
        found = [each for path in folders if (each := _survey(path)) is not None]
        return sorted(found, key=lambda each: (-each.last_used, each.id))

    return retried(directory, read)


def namespaces(directory: Path) -> dict[str, Namespace]:
    """Those with files, by their ids."""

    def read() -> dict[str, Namespace]:
        folders = [path for path in _existing(directory).iterdir() if path.is_dir()]
        found = [each for path in folders if (each := _namespace(path)) is not None]
        return {directory_name(each): each for each in found}

    return retried(directory, read)


def find(directory: Path, beginning: str) -> Namespace:
    """The namespace whose id begins so; ValueError where there is none, or more than one."""
    known = namespaces(directory)
    found = [name for name in known if name.startswith(beginning)]
    if len(found) != 1:
        what = f"the beginning of {len(found)} namespaces" if found else "no namespace"
        listed = ", ".join(sorted(found or known)) or "none"
        raise ValueError(f"{beginning!r} is {what} in {directory}; there are: {listed}")
    return known[found[0]]


def survey_file(path: Path) -> FileSurvey:
    """ValueError where the file is foreign or newer, or was cut within its header."""
    segment = Segment.open(path)
    if segment is None:
        raise ValueError(f"{path} was cut within its header and holds nothing; remove it")
    walked, view = segment.walk(), segment.view()
    heads = np.frombuffer(b"".join(view[p : p + HEAD.itemsize] for p in (walked.starts + PAYLOAD_AT).tolist()), HEAD)
    right = well_formed(heads, walked.sizes, segment.namespace.width)
    whole = sum(frame_bytes(size) for size in walked.sizes.tolist())
    stored = heads["seq"][right]
    return FileSurvey(
        namespace=segment.namespace,
        num_bytes=segment.num_bytes,
        records=int(right.sum()),
        malformed=int((~right).sum()),
        damaged=walked.damaged,
        damaged_bytes=walked.end - HEADER_BYTES - whole if walked.damaged else 0,
        tail_bytes=segment.num_bytes - walked.end,
        first=int(stored.min()) if len(stored) else 0,
        last=int(stored.max()) if len(stored) else 0,
    )


def retried(directory: Path, read: Callable[[], Read]) -> Read:
    """`read()`, again where a file went away meanwhile. RuntimeError where that happens each time."""
    for _ in range(ATTEMPTS):
        try:
            return read()
        except FileNotFoundError as error:
            gone = error.filename
    raise RuntimeError(f"{gone} went away while {directory} was read: its server tidies up, try again in a moment")


def _existing(directory: Path) -> Path:
    if not directory.is_dir():
        raise ValueError(f"{directory} is not a directory of draft files: give one that a server or `build` has made")
    return directory


def _survey(folder: Path) -> NamespaceSurvey | None:
    """None where nothing was ever stored."""
    namespace = _namespace(folder)
    if namespace is None:
        return None
    segments = Segments(folder, namespace, 0)
    _, heads = segments.open(read_only=True)
    live = heads[newest(heads["digest"], heads["seq"])]
    counters = Counters(folder)
    used, totals = counters.open(read_only=True)
    return NamespaceSurvey(
        namespace=namespace,
        folder=folder,
        files=len(segments.by_number),
        num_bytes=segments.num_bytes + counters.num_bytes,
        records=len(live),
        paths=int(live["num_paths"].sum()),
        last_used=max(int(live["seq"].max(initial=0)), int(used["used"].max(initial=0))),
        totals=totals,
    )


def _namespace(folder: Path) -> Namespace | None:
    """As the first draft file says that has a header."""
    return next(filter(None, map(Segment.namespace_of, segment_paths(folder))), None)
