"""LiveRequests: which state a query meets, and whose goes when there are too many."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from drafters.live_requests import LiveRequests
from protos.messages import DraftQuery
from tests.fakes.queries import query


@dataclass
class State:
    tenant: str
    text: list[int] = field(default_factory=list)


class Live:
    """Two requests at most, and who was closed."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.requests: LiveRequests[State] = LiveRequests(self.new_state, self.close, most=2)

    def new_state(self, asked: DraftQuery) -> State:
        return State(asked.tenant)

    def close(self, request_id: str) -> None:
        assert self.requests.pop(request_id) is not None
        self.closed.append(request_id)

    def find(self, request_id: str, *, seen: int = 0, tenant: str = "") -> State | None:
        return self.requests.find(query((1, 2, 3), seen=seen, request_id=request_id, tenant=tenant))


@pytest.fixture
def live() -> Live:
    return Live()


def test_who_was_asked_about_least_recently_is_closed(live: Live) -> None:
    first = live.find("a")
    live.find("b")
    assert live.find("a") is first
    live.find("c")
    assert live.closed == ["b"]
    assert live.requests.get("b") is None
    assert live.requests.get("a") is first


def test_a_tail_that_builds_on_more_than_is_held_meets_nothing(live: Live) -> None:
    assert live.find("a", seen=2) is None
    assert live.requests.held("a") == 0
    state = live.find("a")
    assert state is not None
    state.text += [1]
    assert live.find("a", seen=2) is None
    assert live.requests.held("a") == 1
    assert live.find("a", seen=1) is state


def test_what_another_tenant_left_is_closed(live: Live) -> None:
    state = live.find("a", tenant="x")
    assert state is not None
    state.text += [1, 2]
    assert live.find("a", seen=2, tenant="y") is None
    assert live.closed == ["a"]
    other = live.find("a", tenant="y")
    assert other is not None
    assert (other.tenant, other.text) == ("y", [])
