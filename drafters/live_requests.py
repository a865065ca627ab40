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
    """At most `most` requests; of more, that which was asked about least recently has to leave.

    It is told at each call how its holder closes a request: a table that kept that would keep him, and all that he
    holds, alive.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._states: OrderedDict[str, State] = OrderedDict()

    def meet(
        self, query: DraftQuery, new_state: Callable[[DraftQuery], State], close: Callable[[str], None]
    ) -> State | None:
        """The state of a query's request, a new one where the query brings the whole text; None where the tail builds
        on more than is held. `close` is called for those that are `leaving`, and ends them with `pop`.
        """
        for request_id in self.leaving(query):
            close(request_id)
        state = self.find(query)
        if state is None and query.tail_start == 0:
            state = self.add(query, new_state(query))
        return None if state is None or len(state.text) < query.tail_start else state

    def find(self, query: DraftQuery) -> State | None:
        """The state of a query's request; None where it is unknown, or another tenant's of the same name."""
        state = self._states.get(query.request_id)
        if state is None or state.tenant != query.tenant:
            return None
        self._states.move_to_end(query.request_id)
        return state

    def held(self, query: DraftQuery) -> int:
        """Tokens of its request's text; 0 where `find` finds none."""
        state = self.find(query)
        return 0 if state is None else len(state.text)

    def leaving(self, query: DraftQuery) -> list[str]:
        """Whom to close before a query is met: what another tenant left under its name, and the oldest where a new
        request would be one too many.
        """
        state = self._states.get(query.request_id)
        if state is not None:
            return [] if state.tenant == query.tenant else [query.request_id]
        full = query.tail_start == 0 and len(self._states) >= self._most
        return [next(iter(self._states))] if full else []

    def add(self, query: DraftQuery, state: State) -> State:
        """Takes in the state of a query's request."""
        self._states[query.request_id] = state
        return state

    def get(self, request_id: str) -> State | None:
        """None where it is unknown."""
        return self._states.get(request_id)

    def pop(self, request_id: str) -> State | None:
        """Takes it out."""
        return self._states.pop(request_id, None)
