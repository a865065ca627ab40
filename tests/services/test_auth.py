"""Keys are needed on every route there is, and say who is asking."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.routing import APIRoute

from tests.fakes.scripted_backend import ScriptedBackend
from tests.services.conftest import Client

KEYS = {"key-a": "a", "key-b": "b", "ключ": "c"}
BODY: dict[str, Any] = {"model": "m", "prompt": "hi"}


async def test_every_route_but_health_needs_a_key(client: Client) -> None:
    """Case Z1."""
    async with client(api_keys=KEYS) as http:
        routes = [route for route in http.app.routes if isinstance(route, APIRoute)]  # type: ignore[attr-defined]
        assert len(routes) == 6
        for route in routes:
            path = route.path.replace("{name:path}", "m")
            for method in route.methods:
                status = (await http.request(method, path)).status_code
                assert status == (200 if path == "/health" else 401), path


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/nothing", "//health", "/health/"])
async def test_what_is_no_route_needs_a_key_too(client: Client, path: str) -> None:
    async with client(api_keys=KEYS) as http:
        answer = await http.get(path)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer key", "Bearer key-aa", "Basic key-a", "key-a", ""])
async def test_a_wrong_key_is_refused(client: Client, backend: ScriptedBackend, header: str) -> None:
    async with client(api_keys=KEYS) as http:
        answer = await http.post("/v1/completions", json=BODY, headers={"Authorization": header})
    assert answer.status_code == 401
    assert backend.seen == []


async def test_the_key_chooses_the_tenant(client: Client, backend: ScriptedBackend) -> None:
    """Case Z8."""
    async with client(api_keys=KEYS) as http:
        for key in KEYS:
            header = f"Bearer {key}".encode()
            answer = await http.post("/v1/completions", json=BODY, headers={b"Authorization": header})  # type: ignore[dict-item]
            assert answer.status_code == 200
    assert [request.tenant for request in backend.seen] == list(KEYS.values())


async def test_without_keys_all_are_one_tenant(client: Client, backend: ScriptedBackend) -> None:
    async with client() as http:
        assert (await http.post("/v1/completions", json=BODY, headers={"Authorization": "Bearer x"})).is_success
    assert backend.seen[0].tenant == ""
