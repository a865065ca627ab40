"""LiveRequests: which state a query meets, who has to leave for it, and that nobody is kept alive by it."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field

import pytest

from drafters.live_requests import LiveRequests
from drafters.suffix import SuffixDrafter
from drafters.suffix_config import SuffixConfig
from protos.messages import DraftQuery
from tests.fakes.queries import query


@dataclass
class State:
    tenant: str
    text: list[int] = field(default_factory=list)


@pytest.fixture
def requests() -> LiveRequests[State]:
    return LiveRequests(most=2)


def asked(request_id: str, tenant: str = "") -> DraftQuery:
    return query((1, 2, 3), request_id=request_id, tenant=tenant)


def add(requests: LiveRequests[State], one: DraftQuery) -> State:
    return requests.add(one, State(one.tenant))


def test_who_was_asked_about_least_recently_leaves(requests: LiveRequests[State]) -> None:
    first = add(requests, asked("a"))
    assert requests.leaving(asked("b")) == []
    add(requests, asked("b"))
    assert requests.find(asked("a")) is first
    assert requests.leaving(asked("c")) == ["b"]
    assert requests.pop("b") is not None
    assert requests.leaving(asked("c")) == []
    assert requests.get("b") is None
    add(requests, asked("b"))
    assert requests.leaving(query((1, 2, 3), seen=2, request_id="c")) == []  # it cannot be added


def test_what_another_tenant_left_is_not_found_and_leaves(requests: LiveRequests[State]) -> None:
    state = add(requests, asked("a", "x"))
    state.text += [1, 2]
    assert (requests.held(asked("a", "x")), requests.held(asked("a", "y"))) == (2, 0)
    assert requests.find(asked("a", "y")) is None
    assert requests.leaving(asked("a", "y")) == ["a"]


def test_a_drafter_that_is_dropped_is_gone_at_once() -> None:
    """Whatever it holds, such as a target's embedding or a directory, must not wait for the cycle collector."""
    gc.disable()
    try:
        drafter = SuffixDrafter(SuffixConfig(), max_requests=2)
        list(drafter.draft([asked("a")]))
        gone = weakref.ref(drafter)
        del drafter
        assert gone() is None
    finally:
        gc.enable()
