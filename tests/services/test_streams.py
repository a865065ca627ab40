"""Streams: chunks join to the whole answer, one finish a choice, usage only when asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from protos.messages import Finish, Request, Verdict
from services.backend import Outcome
from services.config import AppArgs
from tests.fakes.scripted_backend import ScriptedBackend, spell
from tests.services.conftest import Client, api_client

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
CHAT_BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
COMPLETION_BODY: dict[str, Any] = {"model": "m", "prompt": "hi", "stream": True}


async def _events(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> list[Any]:
    answer = await http.post(path, json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = answer.text.split("\n\n")
    assert blocks.pop() == ""
    assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
    data = [block.removeprefix("data: ") for block in blocks]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


async def test_chat_stream(client: Client, backend: ScriptedBackend) -> None:
    """Cases T1, T3: chunks join to the text; the last one of a choice alone has its finish."""
    backend.script = spell('héllo "x"\n')
    async with client() as http:
        *chunks, done = await _events(http, CHAT, CHAT_BODY)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    finishes = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert done == "[DONE]"
    assert deltas[0]["role"] == "assistant"
    assert all("role" not in delta for delta in deltas[1:])
    assert "".join(delta["content"] for delta in deltas) == 'héllo "x"\n'
    assert finishes == [None] * (len(chunks) - 1) + ["stop"]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" and "usage" not in chunk for chunk in chunks)


@pytest.mark.parametrize("text", ["", "x"])
async def test_a_stream_of_one_chunk_has_a_role(client: Client, backend: ScriptedBackend, text: str) -> None:
    def _at_once(request: Request) -> list[Verdict]:
        ids = tuple(text.encode())
        return [
            Verdict(
                request_id=request.request_id,
                tokens=ids,
                sources=("",) * len(ids),
                text=text,
                finish=Finish.LENGTH,
            )
        ]

    backend.script = _at_once
    async with client() as http:
        chunk, done = await _events(http, CHAT, CHAT_BODY | {"max_tokens": 1})
    assert done == "[DONE]"
    assert chunk["choices"][0]["delta"] == {"role": "assistant", "content": text}
    assert chunk["choices"][0]["finish_reason"] == "length"


@dataclass
class _Held(ScriptedBackend):
    """Decides the first token, and the others once it is released."""

    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Outcome]:
        rounds = super().generate(requests)
        yield await anext(rounds)
        await self.released.wait()
        async for outcome in rounds:
            yield outcome


async def test_a_chunk_is_sent_before_the_next_is_decided() -> None:
    """Case T7: nothing waits for more chunks to send along."""
    backend, sent = _Held(), asyncio.Queue[Any]()
    body = asyncio.Queue[Any]()
    body.put_nowait({"type": "http.request", "body": json.dumps(CHAT_BODY).encode()})
    scope = {"type": "http", "method": "POST", "path": CHAT, "raw_path": b"", "query_string": b"", "headers": []}
    async with api_client(backend, AppArgs(model="m")) as http, asyncio.timeout(30):
        call = asyncio.create_task(http.app(scope, body.get, sent.put))  # type: ignore[attr-defined]
        assert (await sent.get())["status"] == 200
        first = json.loads((await sent.get())["body"].removeprefix(b"data: "))
        assert first["choices"][0]["delta"]["content"] == "o"
        assert not backend.released.is_set()
        backend.released.set()
        await call


async def test_usage_comes_last_and_equals_that_of_the_whole_answer(client: Client) -> None:
    """Case T4."""
    body = COMPLETION_BODY | {"n": 2, "max_tokens": 1, "stream_options": {"include_usage": True}}
    async with client() as http:
        *chunks, last, done = await _events(http, COMPLETIONS, body)
        whole = (await http.post(COMPLETIONS, json=body | {"stream": False, "stream_options": None})).json()
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"] == whole["usage"]
    assert all(chunk["usage"] is None for chunk in chunks)
    assert sorted(c["choices"][0]["index"] for c in chunks if c["choices"][0]["finish_reason"]) == [0, 1]


async def test_usage_so_far_in_every_chunk(client: Client) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    async with client() as http:
        *chunks, last, _ = await _events(http, COMPLETIONS, COMPLETION_BODY | {"stream_options": options})
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 2, 2]
    assert last["usage"]["completion_tokens"] == 2


async def test_metrics_come_with_the_last_chunk(client: Client) -> None:
    async with client() as http:
        *chunks, last, _ = await _events(http, COMPLETIONS, COMPLETION_BODY | {"return_metrics": True})
    assert all("metrics" not in chunk for chunk in chunks)
    assert last["choices"] == []
    assert "usage" not in last
    assert last["metrics"]["speculative_decoding"]["num_accepted_draft_tokens"] == 4


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_logprobs_ids_and_offsets_survive_held_back_text(
    client: Client, backend: ScriptedBackend, path: str
) -> None:
    backend.script = spell("aé")
    body = CHAT_BODY if path == CHAT else COMPLETION_BODY
    logprobs: dict[str, Any] = {"logprobs": True, "top_logprobs": 1} if path == CHAT else {"logprobs": 1}
    async with client() as http:
        *chunks, _ = await _events(http, path, body | logprobs | {"return_token_ids": True})
    choices = [chunk["choices"][0] for chunk in chunks]
    assert [token for choice in choices for token in choice["token_ids"]] == list("aé".encode())
    if path == CHAT:
        entries = [entry for choice in choices for entry in choice["logprobs"]["content"]]
        assert [entry["bytes"] for entry in entries] == [[97], [0xC3], [0xA9]]
    else:
        assert [offset for choice in choices for offset in choice["logprobs"]["text_offset"]][:2] == [0, 1]


async def test_a_failure_on_the_way_is_an_error_event_and_the_end(client: Client, backend: ScriptedBackend) -> None:
    def _broken(request: Request) -> list[Verdict]:
        failed = Verdict(request_id=request.request_id, finish=Finish.ERROR)
        return [*spell("ok")(request)[:1], failed]

    backend.script = _broken
    async with client() as http:
        first, error = await _events(http, CHAT, CHAT_BODY)
    assert first["choices"][0]["delta"]["content"] == "o"
    assert error["error"]["type"] == "server_error"
    assert backend.closed == 1
