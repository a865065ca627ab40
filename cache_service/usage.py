"""Usage: how often a record was found, how often it was right, and which of its paths texts took."""

from __future__ import annotations

from dataclasses import dataclass

from protos.draft_files import MAX_PATHS


@dataclass(slots=True)
class Usage:
    """hits: look-ups that found it. accepted: tokens drafted from it that the target agreed with.

    counts: texts that took each path since the record was stored.
    """

    hits: int = 0
    accepted: int = 0
    counts: tuple[int, ...] = (0,) * MAX_PATHS

    def add(self, *, hits: int, accepted: int) -> None:
        """Neither goes back."""
        self.hits += hits
        self.accepted += accepted

    def count(self, path: int) -> None:
        """One more text took this path; ValueError where a record has none of this number."""
        if not 0 <= path < MAX_PATHS:
            raise ValueError(f"path {path}: a record has the paths 0 to {MAX_PATHS - 1}")
        self.counts = (*self.counts[:path], self.counts[path] + 1, *self.counts[path + 1 :])
