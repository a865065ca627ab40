"""Models, health, metrics, and the errors of the HTTP layer itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from services.backend import Refusal
from services.openai_api import health
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
    assert wrong.headers["allow"]
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


async def test_health_says_why_speculation_is_down(client: Client) -> None:
    """Case M4: a drafter that is not there is told, with the reason."""
    async with client() as http:
        answer = await http.get("/health")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    assert answer.json()["speculation"] == {"method": "suffix", "up": False, "reason": "lost"}


async def test_one_probe_is_made_for_all_who_ask_at_a_time(client: Client, backend: ScriptedBackend) -> None:
    backend.hold_s = 0.05
    async with client() as http:
        answers = await asyncio.gather(*(http.get("/health") for _ in range(8)))
        assert backend.probes == 1
        assert (await http.get("/health")).is_success
    assert {answer.status_code for answer in answers} == {200}
    assert backend.probes == 2


async def test_one_who_leaves_takes_the_probe_from_nobody(client: Client, backend: ScriptedBackend) -> None:
    backend.hold_s = 0.05
    async with client() as http:
        leaving, staying = (asyncio.create_task(http.get("/health")) for _ in range(2))
        await asyncio.sleep(0.02)
        leaving.cancel()
        assert (await staying).status_code == 200
    assert backend.probes == 1


async def test_health_of_a_broken_and_of_a_hanging_backend(
    client: Client, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as http:
        backend.probed = Refusal(status=500, message="dead")
        answer = await http.get("/health")
        assert (answer.status_code, answer.json()["error"]["message"]) == (503, "dead")
        backend.hold_s = 5
        monkeypatch.setattr(health, "TIMEOUT_S", 0.05)
        answer = await http.get("/health")
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "server_error")


async def test_metrics_keep_engines_apart_and_each_family_once(client: Client) -> None:
    async with client() as http:
        answer = await http.get("/metrics")
    families = list(text_string_to_metric_families(answer.text))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    [prompts] = [family for family in families if family.name == "vllm:prompt_tokens"]
    samples = {sample.labels["engine"]: sample.value for sample in prompts.samples}
    assert samples == {"0": 1.0, "1": 2.0}


async def test_names_and_labels_are_vllms_and_positions_are_a_family_of_their_own(client: Client) -> None:
    """Case X3: whoever adds up one exact name counts nothing twice."""
    async with client() as http:
        text = (await http.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    accepted = families["vllm:spec_decode_num_accepted_tokens"]
    positions = families["vllm:spec_decode_num_accepted_tokens_per_pos"]
    assert {sample.name for sample in accepted.samples} == {"vllm:spec_decode_num_accepted_tokens_total"}
    assert {frozenset(sample.labels) for sample in accepted.samples} == {frozenset({"model_name", "engine"})}
    assert [sample.labels["position"] for sample in positions.samples] == ["0", "1"] * 2
    assert families["paradraft:draft_queries_unanswered"].type == "counter"
    assert "_created" not in text
