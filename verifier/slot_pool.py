"""SlotPool: who holds which KV slot, and what past sequences left in the free ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

WORTH_KEEPING = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Residue:
    """Committed tokens whose keys and values are still in a free slot, and whose they were."""

    tenant: str
    tokens: tuple[int, ...]
    released: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A slot given to a sequence. Its first `shared` rows are those of slot `source`, which may be the same."""

    slot: int
    shared: int
    source: int


class SlotPool:
    """Gives a new sequence a free slot, and the longest prefix that a past sequence of its tenant has in common with
    it.

    A residue that is mostly that prefix is taken over; otherwise it stays, its rows are copied, and the slot longest
    unused is given. A residue is seen by its own tenant only. At least one token is always left to compute, so that
    there are logits.
    """

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._clock = count()
        self._free = {i: Residue(tenant="", tokens=(), released=-1) for i in range(num_slots)}

    @property
    def num_free(self) -> int:
        """Slots that a new sequence could take."""
        return len(self._free)

    def acquire(self, tenant: str, tokens: Sequence[int]) -> Lease:
        """A slot for a sequence that starts with these tokens. At least one slot must be free."""
        reusable = tokens[:-1]
        shared = {
            slot: common_prefix(residue.tokens, reusable) if residue.tenant == tenant else 0
            for slot, residue in self._free.items()
        }
        source = min(self._free, key=lambda i: (-shared[i], self._free[i].released, i))
        slot = source
        if 2 * shared[source] < len(self._free[source].tokens):
            slot = min(self._free, key=lambda i: (self._free[i].released, i))
        del self._free[slot]
        return Lease(slot=slot, shared=shared[source], source=source)

    def release(self, slot: int, tenant: str, tokens: Sequence[int]) -> None:
        """Frees a slot whose first len(tokens) rows hold these tokens. A residue not worth keeping goes first."""
        assert slot not in self._free, f"slot {slot} is free already"
        released = next(self._clock) if len(tokens) >= WORTH_KEEPING else -1
        self._free[slot] = Residue(tenant=tenant, tokens=tuple(tokens), released=released)


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Number of leading items that are equal."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))
