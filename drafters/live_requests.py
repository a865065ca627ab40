"""LiveRequests: the states of the requests that a drafter was asked about, of at most so many."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sized
from typing import Generic, Protocol, TypeVar

from protos.messages import DraftQuery


class Told(Protocol):
    """A request's state, as far as it must be known. text: the tokens that the drafter has been told."""

    @property
    def tenant(self) -> str: ...

    @property
    def text(self) -> Sized: ...


State = TypeVar("State", bound=Told)


class LiveRequests(Generic[State]):
    """At most `most` requests; a further one closes that which was asked about least recently."""

    def __init__(self, new_state: Callable[[DraftQuery], State], close: Callable[[str], None], *, most: int) -> None:
        """new_state: the empty state of a query's request. close: ends a request, with `pop`."""
        self._new_state = new_state
        self._close = close
        self._most = most
        self._states: OrderedDict[str, State] = OrderedDict()

    def find(self, query: DraftQuery) -> State | None:
        """The state of a query's request, a new one where the query brings the whole text.

        None where the tail builds on more than is `held`. What another tenant left under the same name is closed, and
        of too many the oldest.
        """
        state = self._states.get(query.request_id)
        if state is not None and state.tenant != query.tenant:
            self._close(query.request_id)
            state = None
        if state is not None:
            self._states.move_to_end(query.request_id)
        if query.tail_start > (0 if state is None else len(state.text)):
            return None
        if state is None:
            state = self._states[query.request_id] = self._new_state(query)
            while len(self._states) > self._most:
                self._close(next(iter(self._states)))
        return state

    def held(self, request_id: str) -> int:
        """Tokens of its text; 0 where it is unknown."""
        state = self._states.get(request_id)
        return 0 if state is None else len(state.text)

    def get(self, request_id: str) -> State | None:
        """None where it is unknown."""
        return self._states.get(request_id)

    def pop(self, request_id: str) -> State | None:
        """Takes it out."""
        return self._states.pop(request_id, None)
