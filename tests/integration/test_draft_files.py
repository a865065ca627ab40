"""Draft files in a served application: one service for all its replicas, apart for each tenant, missed by nobody."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import ray

from services.actors import RAY_NAMESPACE
from tests.integration.conftest import KEY_A, KEY_B, Server, eventually
from tests.integration.scrape import samples, value

pytestmark = [pytest.mark.ray, pytest.mark.model]

TOKENS = 48


def _body(prompt: str, **more: Any) -> dict[str, Any]:
    sampling = {"max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
    return {"model": "tiny", "prompt": prompt, "return_metrics": True} | sampling | more


def _answer(server: Server, prompt: str, *, key: str = KEY_A, **more: Any) -> tuple[str, int]:
    """Text, and how much of it was drafted."""
    answer = server.post("/v1/completions", _body(prompt, **more), base=server.files, key=key)
    assert answer.is_success, answer.text
    told = answer.json()
    return told["choices"][0]["text"], told["metrics"]["speculative_decoding"]["num_accepted_draft_tokens"]


def _total(server: Server, name: str) -> float:
    return value(server, name, base=server.files)


def _found_again(server: Server, prompt: str, text: str) -> None:
    """Both replicas find what one of them answered before; at first it may not be stored yet."""
    assert eventually(lambda: _answer(server, prompt)[1] > TOKENS // 2, within_s=30)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: _answer(server, prompt), range(12)))
    assert {answer for answer, _ in answers} == {text}
    assert all(drafted > TOKENS // 2 for _, drafted in answers)


def _services() -> list[Any]:
    named = ray.util.list_named_actors(all_namespaces=True)
    names = [actor["name"] for actor in named if actor["name"].startswith("draft-files-")]
    return [ray.get_actor(name, namespace=RAY_NAMESPACE) for name in names]


def test_what_was_answered_is_found_by_every_replica_and_by_its_tenant_alone(server: Server) -> None:
    """Cases R2 and Z6."""
    prompt = "a question that comes again and again"
    plain, _ = _answer(server, prompt, speculative={"enabled": False})
    first, drafted = _answer(server, prompt)
    assert (first, drafted) == (plain, 0)
    _found_again(server, prompt, plain)
    assert _answer(server, prompt, key=KEY_B) == (plain, 0)
    assert _answer(server, prompt)[1] > TOKENS // 2
    assert len(_services()) == 1


def test_metrics_of_draft_files_tell_no_tenant(server: Server) -> None:
    prompt = "a question whose answers are counted"
    before = _total(server, "paradraft:draft_files_accepted_tokens_total")
    text, _ = _answer(server, prompt)
    _found_again(server, prompt, text)
    assert eventually(
        lambda: _total(server, "paradraft:draft_files_accepted_tokens_total") > before + 12 * TOKENS // 2, within_s=10
    )
    for name in ("records", "bytes", "index_bytes", "lookups_total", "hits_total", "additions_total"):
        assert _total(server, f"paradraft:draft_files_{name}") > 0
    assert _total(server, "paradraft:draft_files_bad_messages_total") == 0
    ups = list(samples(server, "paradraft:draft_files_up", base=server.files))
    assert {(one.labels["engine"], one.value) for one in ups} == {("0", 1.0), ("1", 1.0)}
    shown = server.get("/metrics", base=server.files).text
    lines = [line for line in shown.splitlines() if line.startswith("paradraft:draft_files_")]
    assert not any("tenant" in line or '="a"' in line or '="b"' in line for line in lines)


def _stream(server: Server, prompt: str) -> Iterator[str]:
    body = _body(prompt, stream=True, max_tokens=400)
    headers = {"Authorization": f"Bearer {KEY_A}"}
    with httpx.stream("POST", f"{server.files}/v1/completions", json=body, headers=headers, timeout=60) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                yield from (choice["text"] for choice in json.loads(line.removeprefix("data: "))["choices"])


def _up(server: Server) -> bool:
    ups = [one.value for one in samples(server, "paradraft:draft_files_up", base=server.files)]
    return ups == [1.0, 1.0]


def test_a_service_that_is_killed_changes_no_text_and_forgets_nothing(server: Server) -> None:
    prompt = "a question that is asked while the service dies"
    whole = "".join(_stream(server, prompt))
    assert eventually(lambda: _answer(server, prompt)[1] > TOKENS // 2, within_s=30)
    [service] = _services()
    text, pid = "", ray.get(service.__ray_call__.remote(lambda _: os.getpid()), timeout=30)
    for piece in _stream(server, prompt):
        text += piece
        if pid:
            os.kill(pid, signal.SIGKILL)
            pid = 0
    assert text == whole
    assert eventually(lambda: _up(server), within_s=60)
    _found_again(server, prompt, _answer(server, prompt, speculative={"enabled": False})[0])
    assert len(_services()) == 1
