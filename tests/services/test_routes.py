"""Models, health, metrics, and the errors of the HTTP layer itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
from prometheus_client.parser import text_string_to_metric_families

from services.backend import Refusal
from tests.fakes.scripted_backend import ScriptedBackend
from tests.services.conftest import Client


async def test_models(client: Client) -> None:
    async with client(served_model_name="org/name") as http:
        [model] = (await http.get("/v1/models")).json()["data"]
        assert (await http.get("/v1/models/org/name")).json() == model
        missing = await http.get("/v1/models/other")
    assert (model["id"], model["root"], model["max_model_len"]) == ("org/name", "m", 256)
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


async def test_a_model_that_is_not_served_is_a_404(client: Client, backend: ScriptedBackend) -> None:
    async with client() as http:
        answer = await http.post("/v1/completions", json={"model": "other", "prompt": "hi"})
    assert answer.status_code == 404
    assert answer.json()["error"]["param"] == "model"
    assert backend.seen == []


async def test_unknown_routes_and_methods_have_openais_shape(client: Client) -> None:
    async with client() as http:
        lost = await http.get("/v2/nothing")
        wrong = await http.get("/v1/completions")
    assert (lost.status_code, wrong.status_code) == (404, 405)
    assert set(lost.json()["error"]) == set(wrong.json()["error"]) == {"message", "type", "param", "code"}


async def test_a_body_too_large_is_a_413_declared_or_not(client: Client, backend: ScriptedBackend) -> None:
    async def _undeclared() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b" " * 64

    async with client(limits={"max_body_bytes": 1024}) as http:
        declared = await http.post("/v1/completions", content=b" " * 2000)
        undeclared = await http.post("/v1/completions", content=_undeclared())
    assert (declared.status_code, undeclared.status_code) == (413, 413)
    assert "1024" in declared.json()["error"]["message"]
    assert backend.seen == []


async def test_health_decodes_a_token_and_says_why_speculation_is_down(
    client: Client, backend: ScriptedBackend
) -> None:
    async with client() as http:
        answer = await http.get("/health")
    assert answer.status_code == 200
    assert answer.json()["speculation"] == {"method": "suffix", "up": False, "reason": "lost"}
    assert [request.params.max_tokens for request in backend.seen] == [1]


async def test_health_of_a_broken_and_of_a_busy_backend(client: Client, backend: ScriptedBackend) -> None:
    async def _probe(http: httpx.AsyncClient, refusal: Refusal) -> tuple[int, object]:
        backend.refusal = refusal
        answer = await http.get("/health")
        return answer.status_code, answer.json().get("status")

    async with client() as http:
        assert await _probe(http, Refusal(status=500, message="dead")) == (503, None)
        assert await _probe(http, Refusal(status=429, message="full")) == (200, "busy")


async def test_metrics_keep_engines_apart_and_each_family_once(client: Client) -> None:
    async with client() as http:
        answer = await http.get("/metrics")
    families = list(text_string_to_metric_families(answer.text))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    [prompts] = [family for family in families if family.name == "vllm:prompt_tokens"]
    samples = {sample.labels["engine"]: sample.value for sample in prompts.samples}
    assert samples == {"0": 1.0, "1": 2.0}
    assert "_created" not in answer.text
