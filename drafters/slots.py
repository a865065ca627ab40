"""SlotTable: which request holds which KV slot of a drafter's model."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

from protos.messages import DraftQuery


class Held(Protocol):
    """What a table must know of a request's state. text: the tokens that the drafter has been told."""

    slot: int
    tenant: str
    text: list[int]


State = TypeVar("State", bound=Held)


class SlotTable(Generic[State]):
    """One slot a request; a new request takes a free slot, else that of the least recently used one."""

    def __init__(self, new_state: Callable[[int, str], State], *, num_slots: int, max_len: int) -> None:
        """new_state: the empty state of (slot, tenant). max_len: the longest text that fits into a slot."""
        self._new_state = new_state
        self._max_len = max_len
        self._states: OrderedDict[str, State] = OrderedDict()
        self._free = list(range(num_slots - 1, -1, -1))

    def find(self, query: DraftQuery, *, keep: Collection[str]) -> State | None:
        """The state of a query's request; a new one where the query brings the whole text and a slot can be had.

        None too for a text that does not fit. What another tenant left under the same name is dropped. Requests in
        `keep` keep their slots.
        """
        if query.base_len > self._max_len:
            return None
        state = self._states.get(query.request_id)
        if state is not None and state.tenant != query.tenant:
            self.release(query.request_id)
            state = None
        if state is not None:
            self._states.move_to_end(query.request_id)
        elif query.tail_start == 0:
            return self._admit(query, keep)
        return state

    def need_from(self, query: DraftQuery, state: State | None, *, keep: Collection[str]) -> int | None:
        """What to ask for where the tail builds on more than is held; None where no tail would help now."""
        if query.base_len > self._max_len:
            return None
        if state is not None:
            return len(state.text)
        return 0 if query.tail_start > 0 and self._has_room(keep) else None

    def release(self, request_id: str) -> None:
        """Frees the request's slot; an unknown request does nothing."""
        state = self._states.pop(request_id, None)
        if state is not None:
            self._free.append(state.slot)

    def _admit(self, query: DraftQuery, keep: Collection[str]) -> State | None:
        if not self._free:
            oldest = self._oldest(keep)
            if oldest is None:
                return None
            self.release(oldest)
        state = self._new_state(self._free.pop(), query.tenant)
        self._states[query.request_id] = state
        return state

    def _has_room(self, keep: Collection[str]) -> bool:
        return bool(self._free) or self._oldest(keep) is not None

    def _oldest(self, keep: Collection[str]) -> str | None:
        return next((held for held in self._states if held not in keep), None)
