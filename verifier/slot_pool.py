"""SlotPool: who holds which KV slot, and what past sequences left in the free ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Residue:
    """Committed tokens whose keys and values are still in a free slot, and whose they were."""

    tenant: str
    tokens: tuple[int, ...]
    released: int


class SlotPool:
    """Gives a new sequence the free slot with the longest prefix in common, else the one longest unused.

    A residue is seen by its own tenant only. At least one token is always left to compute, so that there are logits.
    """

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._clock = count()
        self._free = {i: Residue(tenant="", tokens=(), released=-1) for i in range(num_slots)}

    @property
    def num_free(self) -> int:
        """Slots that a new sequence could take."""
        return len(self._free)

    def acquire(self, tenant: str, tokens: Sequence[int]) -> tuple[int, int]:
        """(slot, number of leading tokens whose rows are already there). At least one slot must be free."""
        shared = {
            slot: common_prefix(residue.tokens, tokens[:-1]) if residue.tenant == tenant else 0
            for slot, residue in self._free.items()
        }
        slot = min(self._free, key=lambda i: (-shared[i], self._free[i].released, i))
        del self._free[slot]
        return slot, shared[slot]

    def release(self, slot: int, tenant: str, tokens: Sequence[int]) -> None:
        """Frees a slot whose first len(tokens) rows hold these tokens."""
        assert slot not in self._free, f"slot {slot} is free already"
        self._free[slot] = Residue(tenant=tenant, tokens=tuple(tokens), released=next(self._clock))


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Number of leading items that are equal."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))
