"""Whole answers: shapes, usage, logprobs, seeds, several choices."""

from __future__ import annotations

from typing import Any

import pytest

from protos.messages import Finish, Request, Verdict
from services.backend import Refusal
from tests.fakes.scripted_backend import ScriptedBackend, spell
from tests.services.conftest import Client

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
CHAT_BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
COMPLETION_BODY: dict[str, Any] = {"model": "m", "prompt": "hi"}


async def test_chat_answer(client: Client, backend: ScriptedBackend) -> None:
    """Case E5: a detail of the usage is at most its total."""
    backend.script = spell("héllo")
    async with client() as http:
        answer = (await http.post(CHAT, json=CHAT_BODY)).json()
    [choice] = answer["choices"]
    prompt = len(backend.seen[0].prompt_ids)
    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    assert answer["system_fingerprint"] == "paradraft-" + "f" * 16
    assert choice["message"] == {"role": "assistant", "content": "héllo", "refusal": None}
    assert (choice["finish_reason"], choice["logprobs"], choice["index"]) == ("stop", None, 0)
    assert choice["seed"] == backend.seen[0].params.seed
    assert answer["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": 6,
        "total_tokens": prompt + 6,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    assert "metrics" not in answer


async def test_the_template_opens_the_assistants_turn_and_adds_no_token_twice(
    client: Client, backend: ScriptedBackend
) -> None:
    async with client() as http:
        await http.post(CHAT, json=CHAT_BODY)
    expected = (256, *b"user\nhi", 257, *b"\n", 256, *b"assistant\n")
    assert backend.seen[0].prompt_ids == expected


async def test_n_choices_have_distinct_seeds_and_the_prompt_is_counted_once(
    client: Client, backend: ScriptedBackend
) -> None:
    async with client() as http:
        answer = (await http.post(COMPLETIONS, json=COMPLETION_BODY | {"n": 3, "seed": 5, "max_tokens": 1})).json()
    seeds = [choice["seed"] for choice in answer["choices"]]
    assert seeds[0] == 5
    assert len(set(seeds)) == 3
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["prompt_tokens"] == 2
    assert answer["usage"]["completion_tokens"] == 3
    assert all(choice["finish_reason"] == "length" for choice in answer["choices"])


@pytest.mark.parametrize("prompt", [["a", "bc"], [[97], [98, 99]]])
async def test_several_prompts_make_choices_in_order(client: Client, backend: ScriptedBackend, prompt: Any) -> None:
    backend.script = lambda request: spell(bytes(request.prompt_ids).decode().upper())(request)
    async with client() as http:
        answer = (await http.post(COMPLETIONS, json={"model": "m", "prompt": prompt, "n": 2})).json()
    assert [choice["text"] for choice in answer["choices"]] == ["A", "A", "BC", "BC"]
    assert answer["usage"]["prompt_tokens"] == 3
    assert answer["usage"]["completion_tokens"] == 6
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 4


async def test_chat_logprobs_have_one_entry_a_token(client: Client, backend: ScriptedBackend) -> None:
    backend.script = spell("é")
    async with client() as http:
        answer = (await http.post(CHAT, json=CHAT_BODY | {"logprobs": True, "top_logprobs": 2})).json()
    first, second = answer["choices"][0]["logprobs"]["content"]
    assert first["token"] == "bytes:\\xc3"
    assert (first["bytes"], second["bytes"]) == ([0xC3], [0xA9])
    assert first["logprob"] == -0.5
    assert [entry["logprob"] for entry in first["top_logprobs"]] == [-0.5, -9999.0]


async def test_completion_logprobs(client: Client, backend: ScriptedBackend) -> None:
    async with client() as http:
        answer = (await http.post(COMPLETIONS, json=COMPLETION_BODY | {"logprobs": 1})).json()
    logprobs = answer["choices"][0]["logprobs"]
    assert logprobs == {
        "tokens": ["o", "k"],
        "token_logprobs": [-0.5, -0.5],
        "top_logprobs": [{"o": -0.5}, {"k": -0.5}],
        "text_offset": [0, 1],
    }


async def test_ids_and_metrics_on_request(client: Client, backend: ScriptedBackend) -> None:
    fields = {"return_token_ids": True, "return_metrics": True, "n": 2}
    options = {"speculative_config": {"method": "suffix", "num_speculative_tokens": 3}}
    async with client(**options) as http:
        answer = (await http.post(COMPLETIONS, json=COMPLETION_BODY | fields)).json()
    assert answer["choices"][0]["token_ids"] == list(b"ok")
    assert answer["prompt_token_ids"] == [list(b"hi")]
    assert answer["metrics"]["speculative_decoding"] == {
        "mean_acceptance_length": 2.0,
        "draft_acceptance_rate": 0.5,
        "acceptance_histogram": [2, 4, 2],
        "num_spec_steps": 8,
        "num_accepted_draft_tokens": 8,
        "num_draft_tokens": 16,
        "num_spec_tokens": 3,
        "num_verified_tokens": 12,
        "num_steps": 18,
        "sources": {"suffix": 8},
    }


@pytest.mark.parametrize(
    ("fields", "param"), [({"prompt": ["a", "b"], "n": 2}, "n"), ({"prompt": ["a"] * 4}, "prompt"), ({"n": 4}, "n")]
)
async def test_more_sequences_than_the_engine_can_hold_are_a_400_not_a_429(
    client: Client, backend: ScriptedBackend, fields: dict[str, Any], param: str
) -> None:
    backend.max_sequences = 3
    async with client() as http:
        error = (await http.post(COMPLETIONS, json=COMPLETION_BODY | fields)).json()["error"]
        fits = await http.post(COMPLETIONS, json=COMPLETION_BODY | {"n": 3})
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert "make 4 sequences; this server holds at most 3" in error["message"]
    assert fits.status_code == 200
    assert len(backend.seen) == 3


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("refusal", "kind", "retry_after"),
    [
        (Refusal(status=429, message="queue full", retry_after_s=7), "rate_limit_error", "7"),
        (Refusal(status=400, message="no"), "invalid_request_error", None),
        (Refusal(status=503, message="gone"), "server_error", None),
    ],
)
async def test_a_refusal_is_a_status_also_for_streams(
    client: Client, backend: ScriptedBackend, stream: bool, refusal: Refusal, kind: str, retry_after: str | None
) -> None:
    backend.refusal = refusal
    async with client() as http:
        answer = await http.post(CHAT, json=CHAT_BODY | {"stream": stream})
    assert answer.status_code == refusal.status
    assert answer.json()["error"]["type"] == kind
    assert answer.json()["error"]["message"] == refusal.message
    assert answer.headers.get("retry-after") == retry_after
    assert backend.closed == 1


@pytest.mark.parametrize(("finish", "status"), [(Finish.ERROR, 500), (Finish.ABORT, 503)])
async def test_a_broken_answer_is_no_answer(
    client: Client, backend: ScriptedBackend, finish: Finish, status: int
) -> None:
    def _broken(request: Request) -> list[Verdict]:
        return [*spell("ok")(request)[:1], Verdict(request_id=request.request_id, finish=finish)]

    backend.script = _broken
    async with client() as http:
        answer = await http.post(COMPLETIONS, json=COMPLETION_BODY)
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == "server_error"
    assert backend.closed == 1


async def test_a_bug_is_a_500_that_tells_nothing(client: Client, backend: ScriptedBackend) -> None:
    def _bug(_: Request) -> list[Verdict]:
        raise RuntimeError("another user's text")

    backend.script = _bug
    async with client() as http:
        answer = await http.post(COMPLETIONS, json=COMPLETION_BODY)
    assert answer.status_code == 500
    assert "another" not in answer.text
    assert answer.json()["error"]["type"] == "server_error"
