"""What is counted: usage of a record, totals of a namespace, metrics of one that is in use."""

from __future__ import annotations

from dataclasses import dataclass

from protos.draft_files import MAX_PATHS

NO_COUNTS = (0,) * MAX_PATHS


@dataclass(slots=True)
class Usage:
    """hits: look-ups that found the record. accepted: tokens drafted from it that the target agreed with.

    counts: texts that took each path since the record was stored.
    """

    hits: int = 0
    accepted: int = 0
    counts: tuple[int, ...] = NO_COUNTS

    def add(self, *, hits: int, accepted: int) -> None:
        """So many more look-ups found it, and so many more tokens came from it."""
        self.hits += hits
        self.accepted += accepted

    def count(self, path: int) -> None:
        """One more text took this path; ValueError where a record has none of this number."""
        if not 0 <= path < MAX_PATHS:
            raise ValueError(f"path {path}: a record has the paths 0 to {MAX_PATHS - 1}")
        self.counts = (*self.counts[:path], self.counts[path] + 1, *self.counts[path + 1 :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Of one namespace, since it has files; monotone.

    lookups: questions asked. hits: those that found anything. insertions: records stored. accepted: tokens drafted from
    records that the target agreed with. evictions: records that had to make room.
    """

    lookups: int = 0
    hits: int = 0
    insertions: int = 0
    accepted: int = 0
    evictions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceMetrics:
    """records: that live. num_bytes: of the files. index_bytes: of memory. kind: how vectors are searched.

    lookups: questions asked. hits: questions that found anything. accepted: tokens that drafts from here gave; these
    three since there are files. added: continuations taken in. short: those of too few tokens; both since the start.
    """

    records: int
    num_bytes: int
    index_bytes: int
    kind: str
    lookups: int
    hits: int
    added: int
    short: int
    accepted: int
