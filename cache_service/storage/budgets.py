"""Budgets: how many bytes a store may have on the disk, and one tenant of it."""

from __future__ import annotations

from dataclasses import dataclass

from cache_service.storage.header import HEADER_BYTES

SEGMENTS = 16  # full ones that the smaller budget has room for
MAX_SEGMENT_BYTES = 64 * 2**20  # what is copied at once; more where the budget would have too many
MAX_SEGMENTS = 256
MIN_BYTES = 2**20
UNBOUNDED = 2**50  # bytes: no disk has as many
_HEADERS = 4  # of files that an append and a compaction may begin, and what else a directory holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """ValueError where one is below MIN_BYTES."""

    budget_bytes: int
    tenant_budget_bytes: int

    def __post_init__(self) -> None:
        for name in ("budget_bytes", "tenant_budget_bytes"):
            num_bytes = getattr(self, name)
            if num_bytes < MIN_BYTES:
                raise ValueError(f"{name} is {num_bytes}, which is too small for draft files: give {MIN_BYTES} or more")

    @property
    def segment_bytes(self) -> int:
        """Of a full draft file."""
        most = max(MAX_SEGMENT_BYTES, self.budget_bytes // MAX_SEGMENTS)
        return min(self.budget_bytes // SEGMENTS, self.tenant_budget_bytes // SEGMENTS, most)

    @property
    def limit(self) -> int:
        """Bytes beyond which room is made: the budget, but for a segment that is written anew before its file goes."""
        return self.budget_bytes - self.segment_bytes - _HEADERS * HEADER_BYTES

    @property
    def tenant_limit(self) -> int:
        """The same for all files of one tenant."""
        return self.tenant_budget_bytes - self.segment_bytes - _HEADERS * HEADER_BYTES
