"""Parts that die: a drafter costs drafts and comes back; a verifier costs its own requests and is replaced."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import ray
from ray import serve

from tests.integration.conftest import KEY_A, MODEL, Server, eventually
from tests.integration.scrape import samples, value

pytestmark = [pytest.mark.ray, pytest.mark.model]

COUNT: dict[str, Any] = {
    "model": MODEL,
    "prompt": "1, 2, 3, 4, 5, 6. 1, 2, 3, 4, 5, 6. 1,",
    "temperature": 0,
    "max_tokens": 96,
}


def _actors(prefix: str) -> list[Any]:
    named = ray.util.list_named_actors(all_namespaces=True)
    return [
        ray.get_actor(actor["name"], namespace=actor["namespace"])
        for actor in named
        if actor["name"].startswith(prefix)
    ]


def _healthy(name: str) -> bool:
    return serve.status().applications[name].deployments["Verifier"].status == "HEALTHY"


def _stream(server: Server, base: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {KEY_A}"}
    with httpx.stream(
        "POST", f"{base}/v1/completions", json=body | {"stream": True}, headers=headers, timeout=60
    ) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))


def _pid(actor: Any) -> int:
    return int(ray.get(actor.ready.remote(), timeout=20))


def test_a_drafter_killed_in_the_middle_changes_no_text_and_comes_back(server: Server) -> None:
    """Case M4: while it is gone, /health says so."""
    plain = server.post("/v1/completions", COUNT | {"speculative": {"enabled": False}}).json()["choices"][0]["text"]
    [drafter] = _actors("main-drafter")
    pid = _pid(drafter)
    text, events = "", _stream(server, server.base, COUNT)
    for event in events:
        text += event["choices"][0]["text"]
        if pid:
            os.kill(pid, signal.SIGKILL)
            pid = 0
    assert text == plain

    def _up() -> bool:
        return bool(server.get("/health").json()["speculation"]["up"])

    assert eventually(_up, within_s=60)
    accepted = value(server, "vllm:spec_decode_num_accepted_tokens_total")
    assert server.post("/v1/completions", COUNT).json()["choices"][0]["text"] == plain
    assert value(server, "vllm:spec_decode_num_accepted_tokens_total") > accepted
    lost = [s.value for s in samples(server, "paradraft:drafter_events_total") if s.labels["event"] == "reconnects"]
    assert sum(lost) >= 1


def test_a_verifier_that_dies_fails_its_requests_and_is_replaced(server: Server) -> None:
    """Case D4."""
    body = {"model": "tiny", "prompt": "x", "max_tokens": 3000, "ignore_eos": True}
    victims = _actors("SERVE_REPLICA::two#Verifier")
    assert len(victims) == 2
    events = _stream(server, server.two, body)
    next(events)
    for victim in victims:
        ray.kill(victim)
    *_, last = events
    assert last["error"]["type"] == "server_error"

    told = set()

    def _serves() -> bool:
        told.add(server.get("/health", base=server.two).status_code)
        return 200 in told

    assert eventually(_serves, within_s=90)
    assert told <= {200, 503}
    answer = server.post("/v1/completions", body | {"max_tokens": 4}, base=server.two)
    assert answer.json()["usage"]["completion_tokens"] == 4
    # Both are back before the next test, which may time something.
    assert eventually(lambda: _healthy("two"), within_s=90)
