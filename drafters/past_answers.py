"""PastAnswers: finished answers by tenant, bounded in bytes; the oldest answer of all tenants goes first."""

from __future__ import annotations

import hashlib
from array import array
from collections import deque

from drafters.suffix_index import BYTES_PER_TOKEN, SuffixIndex

END = array("i", [-1])  # after each answer: no token, so that nothing matches or reads across


class PastAnswers:
    """A tenant's answers are searched for that tenant only. A text that is there already is not stored twice.

    Eviction is first in, first out over all tenants; a text longer than the whole store is left out.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_tokens = max_bytes // BYTES_PER_TOKEN
        self._by_tenant: dict[str, SuffixIndex] = {}
        self._answers: deque[tuple[str, int, bytes]] = deque()
        self._known: set[tuple[str, bytes]] = set()
        self._num_tokens = 0

    @property
    def num_bytes(self) -> int:
        """Memory held, by the measured cost of a token."""
        return self._num_tokens * BYTES_PER_TOKEN

    def of(self, tenant: str) -> SuffixIndex | None:
        """The index over one tenant's answers, None where there are none."""
        return self._by_tenant.get(tenant)

    def add(self, tenant: str, text: array[int]) -> None:
        """Stores a finished text and evicts the oldest ones until it fits."""
        digest = hashlib.blake2b(text.tobytes(), digest_size=16).digest()
        size = len(text) + len(END)
        if size > self._max_tokens or (tenant, digest) in self._known:
            return
        while self._num_tokens + size > self._max_tokens:
            self._evict_oldest()
        index = self._by_tenant.setdefault(tenant, SuffixIndex())
        index.extend(text + END)
        self._answers.append((tenant, size, digest))
        self._known.add((tenant, digest))
        self._num_tokens += size

    def _evict_oldest(self) -> None:
        tenant, size, digest = self._answers.popleft()
        index = self._by_tenant[tenant]
        index.forget(size)
        if index.start == len(index):
            del self._by_tenant[tenant]
        self._known.discard((tenant, digest))
        self._num_tokens -= size
