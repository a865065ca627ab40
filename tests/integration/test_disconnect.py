"""A client that goes away frees its slot within a second, whether it streams, waits for a whole answer, or queues."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.integration.conftest import KEY_A, MODEL, QUEUE, SLOTS, Server, eventually
from tests.integration.scrape import value

pytestmark = [pytest.mark.ray, pytest.mark.model]

LONG: dict[str, Any] = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 1900, "ignore_eos": True}


def _open(server: Server, *, stream: bool) -> socket.socket:
    url = urlsplit(server.base)
    body = json.dumps(LONG | {"stream": stream}).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Bearer {KEY_A}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection((url.hostname, url.port))
    connection.sendall(head.encode() + body)
    return connection


def _running(server: Server) -> float:
    return value(server, "vllm:num_requests_running")


def _waiting(server: Server) -> float:
    return value(server, "vllm:num_requests_waiting")


def _assert_idle_within_a_second(server: Server) -> None:
    began = time.monotonic()
    assert eventually(lambda: _running(server) + _waiting(server) == 0, within_s=10)
    # The engine's step and the scrape itself are in this; a busy machine gets some grace.
    assert time.monotonic() - began < 2
    assert value(server, "vllm:kv_cache_usage_perc") == 0


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot(server: Server, stream: bool) -> None:
    """Case A1."""
    connection = _open(server, stream=stream)
    assert eventually(lambda: _running(server) == 1, within_s=20)
    connection.close()
    _assert_idle_within_a_second(server)


def test_curl_that_times_out_frees_its_slot(server: Server) -> None:
    """Case A1."""
    command = ["curl", "-sS", "-m", "2", f"{server.base}/v1/completions", "-H", f"Authorization: Bearer {KEY_A}"]
    ended = subprocess.run([*command, "-d", json.dumps(LONG)], capture_output=True, check=False, timeout=30)
    assert ended.returncode == 28
    _assert_idle_within_a_second(server)


def test_a_full_queue_is_a_429_and_leaving_it_makes_room(server: Server) -> None:
    connections: list[socket.socket] = []
    try:
        for count in range(1, SLOTS + QUEUE + 1):
            connections.append(_open(server, stream=True))
            assert eventually(lambda: _running(server) + _waiting(server) == count, within_s=20)  # noqa: B023
        assert eventually(lambda: (_running(server), _waiting(server)) == (SLOTS, QUEUE), within_s=2)
        for stream in (False, True):
            refused = server.post("/v1/completions", LONG | {"stream": stream})
            assert refused.status_code == 429
            assert refused.json()["error"]["type"] == "rate_limit_error"
            assert int(refused.headers["retry-after"]) >= 1
        assert server.get("/health").json()["status"] == "ok"
        connections.pop().close()
        assert eventually(lambda: _waiting(server) == QUEUE - 1, within_s=10)
    finally:
        for connection in connections:
            connection.close()
    _assert_idle_within_a_second(server)


def test_leaving_often_leaves_nothing_behind(server: Server) -> None:
    body = {"model": MODEL, "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
    before = server.post("/v1/completions", body).json()["choices"][0]["text"]
    for i in range(20):
        connection = _open(server, stream=i % 2 == 0)
        time.sleep(0.02)
        connection.close()
    assert eventually(lambda: _running(server) + _waiting(server) == 0, within_s=10)
    assert server.post("/v1/completions", body).json()["choices"][0]["text"] == before
    assert value(server, "vllm:kv_cache_usage_perc") == 0
