"""Surveys: what a directory of draft files holds, a shelf or one draft file, read beside whoever writes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cache_service.storage.counters import Counters
from cache_service.storage.directory import folders, retried
from cache_service.storage.header import HEADER_BYTES
from cache_service.storage.namespace import directory_name
from cache_service.storage.record import Record, newest, well_formed
from cache_service.storage.segment import Segment
from cache_service.storage.segments import Segments
from cache_service.storage.shelf import Shelf
from cache_service.storage.usage import Totals
from protos.draft_files import Namespace


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
class UsedRecord:
    """used: microseconds since 1970. hits: look-ups that found it. accepted: tokens that were drafted from it."""

    record: Record
    used: int
    hits: int
    accepted: int


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
        found = [_survey(folder, namespace) for folder, namespace in folders(directory).items()]
        return sorted(found, key=lambda each: (-each.last_used, each.id))

    return retried(directory, read)


def last_used(shelf: Shelf, limit: int) -> list[UsedRecord]:
    """At most `limit` records of a shelf, the last used first."""
    entries = shelf.catalogue.live_entries()
    entries = entries[entries["used"].argsort(kind="stable")[::-1][:limit]]
    uses = {bytes(use["digest"]): use for use in shelf.catalogue.to_save(entries["row"].copy())}
    found = []
    for row, used in zip(entries["row"].tolist(), entries["used"].tolist(), strict=True):
        record = shelf.record(row)
        if record is not None:
            use = uses[record.digest]
            found.append(UsedRecord(record=record, used=used, hits=int(use["hits"]), accepted=int(use["accepted"])))
    return found


def survey_file(path: Path) -> FileSurvey:
    """ValueError where the file is foreign or newer, or was cut within its header."""
    segment = Segment.open(path)
    if segment is None:
        raise ValueError(f"{path} was cut within its header and holds nothing; remove it")
    walked = segment.walk()
    heads = segment.heads(walked)
    right = well_formed(heads, walked.sizes, segment.namespace.width)
    whole = int(walked.frame_sizes.sum())
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


def _survey(folder: Path, namespace: Namespace) -> NamespaceSurvey:
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
