"""SlotTable: which request holds which KV slot of a draft model, and what is in it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from modeling.sampling import TokenSampler


@dataclass(slots=True, kw_only=True)
class SlotState:
    """A request's text and how much of it the slot holds.

    `rows` leading tokens of `text` have their keys and values in the slot; once all have, those of `guessed` follow.
    Whatever lies beyond is overwritten by the next forward. `sampler` has committed the answer's tokens among the first
    `sampled` of the text.
    """

    slot: int
    tenant: str
    text: list[int] = field(default_factory=list)
    rows: int = 0
    guessed: list[int] = field(default_factory=list)
    sampler: TokenSampler | None = None
    sampled: int = 0

    def synchronise(self, tail_start: int, tail: Sequence[int]) -> None:
        """Truncates the text to `tail_start` and appends the tail.

        What of the tail was there already, as text of an answer that got lost or as guesses, keeps its rows.
        """
        kept = min(self.rows, tail_start)
        for held, token in zip(self.text[kept : self.rows] + self.guessed, tail, strict=False):
            if held != token:
                break
            kept += 1
        self.text[tail_start:] = tail
        self.rows, self.guessed = kept, []
        if self.sampled > tail_start:
            self.sampler = None


class SlotTable:
    """One slot a request; a new request takes a free slot, else that of the least recently used one."""

    def __init__(self, num_slots: int) -> None:
        self._states: OrderedDict[str, SlotState] = OrderedDict()
        self._free = list(range(num_slots - 1, -1, -1))

    def get(self, request_id: str) -> SlotState | None:
        """The request's state, None where it never had a slot or lost it."""
        state = self._states.get(request_id)
        if state is not None:
            self._states.move_to_end(request_id)
        return state

    def has_room(self, *, keep: Collection[str]) -> bool:
        """Whether `admit` would find a slot."""
        return bool(self._free) or self._oldest(keep) is not None

    def admit(self, request_id: str, *, tenant: str, keep: Collection[str]) -> SlotState | None:
        """A slot for a new request; None where all are held by requests in `keep`."""
        if not self._free:
            oldest = self._oldest(keep)
            if oldest is None:
                return None
            self.release(oldest)
        state = SlotState(slot=self._free.pop(), tenant=tenant)
        self._states[request_id] = state
        return state

    def release(self, request_id: str) -> None:
        """Frees the request's slot; an unknown request does nothing."""
        state = self._states.pop(request_id, None)
        if state is not None:
            self._free.append(state.slot)

    def _oldest(self, keep: Collection[str]) -> str | None:
        return next((held for held in self._states if held not in keep), None)
