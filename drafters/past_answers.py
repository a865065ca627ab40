"""PastAnswers: finished answers by tenant, bounded in bytes; the oldest answer of all tenants goes first."""

from __future__ import annotations

import hashlib
from array import array
from collections import deque

from drafters.suffix_index import EMPTY_BYTES, MOST_BYTES_PER_TOKEN, SuffixIndex

END = array("i", [-1])  # after each answer: no token, so that nothing matches or reads across
ANSWER_BYTES = 512  # what is noted of an answer beside its tokens


class PastAnswers:
    """A tenant's answers are searched for that tenant only. A text that is there already is not stored twice.

    Eviction is first in, first out over all tenants; a text that might fill the whole store is left out.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._by_tenant: dict[str, SuffixIndex] = {}
        self._answers: deque[tuple[str, int, bytes]] = deque()
        self._known: set[tuple[str, bytes]] = set()
        self._index_bytes = 0

    @property
    def num_bytes(self) -> int:
        """Memory held, from above."""
        return self._index_bytes + len(self._answers) * ANSWER_BYTES

    def of(self, tenant: str) -> SuffixIndex | None:
        """The index over one tenant's answers, None where there are none."""
        return self._by_tenant.get(tenant)

    def add(self, tenant: str, text: array[int]) -> None:
        """Stores a finished text and evicts the oldest ones until it fits."""
        digest = hashlib.blake2b(text.tobytes(), digest_size=16).digest()
        size = len(text) + len(END)
        needed = EMPTY_BYTES + size * MOST_BYTES_PER_TOKEN + ANSWER_BYTES
        if needed > self._max_bytes or (tenant, digest) in self._known:
            return
        while self.num_bytes + needed > self._max_bytes:
            self._evict_oldest()
        index = self._by_tenant.get(tenant)
        if index is None:
            index = self._by_tenant[tenant] = SuffixIndex()
        else:
            self._index_bytes -= index.num_bytes
        index.extend(text + END)
        self._index_bytes += index.num_bytes
        self._answers.append((tenant, size, digest))
        self._known.add((tenant, digest))

    def _evict_oldest(self) -> None:
        tenant, size, digest = self._answers.popleft()
        index = self._by_tenant[tenant]
        self._index_bytes -= index.num_bytes
        index.forget(size)
        if index.start == len(index):
            del self._by_tenant[tenant]
        else:
            self._index_bytes += index.num_bytes
        self._known.discard((tenant, digest))
