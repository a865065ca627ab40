"""Every field is honoured or refused by name, with the value and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.scripted_backend import ScriptedBackend
from tests.services.conftest import Client

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
CHAT_BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
COMPLETION_BODY: dict[str, Any] = {"model": "m", "prompt": "hi"}


def _body(path: str, extra: dict[str, Any]) -> dict[str, Any]:
    return (CHAT_BODY if path == CHAT else COMPLETION_BODY) | extra


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    # path, fields, param, part of the message
    (CHAT, {"tools": [{"type": "function"}]}, "tools", "not support"),
    (CHAT, {"tool_choice": "required"}, "tool_choice", "required"),
    (CHAT, {"response_format": {"type": "json_object"}}, "response_format", "json_object"),
    (CHAT, {"functions": [{}]}, "functions", "not support"),
    (CHAT, {"audio": {}}, "audio", "not support"),
    (CHAT, {"modalities": ["audio"]}, "modalities", "audio"),
    (CHAT, {"prediction": {"type": "content"}}, "prediction", "not support"),
    (CHAT, {"reasoning_effort": "low"}, "reasoning_effort", "low"),
    (CHAT, {"temprature": 1}, "temprature", "temperature"),
    (CHAT, {"cache_salt": "a"}, "cache_salt", "unknown field"),
    (CHAT, {"tenant": "a"}, "tenant", "unknown field"),
    (CHAT, {"temperature": 2.1}, "temperature", "2.1"),
    (CHAT, {"temperature": "1"}, "temperature", '"1"'),
    (CHAT, {"temperature": True}, "temperature", "true"),
    (CHAT, {"top_p": 0}, "top_p", "0"),
    (CHAT, {"presence_penalty": -3}, "presence_penalty", "-3"),
    (CHAT, {"frequency_penalty": 3}, "frequency_penalty", "3"),
    (CHAT, {"repetition_penalty": 11}, "repetition_penalty", "11"),
    (CHAT, {"min_p": 2}, "min_p", "2"),
    (CHAT, {"top_k": -2}, "top_k", "-2"),
    (CHAT, {"n": 0}, "n", "0"),
    (CHAT, {"n": 5_000_000}, "n", "5000000"),
    (CHAT, {"seed": -1}, "seed", "-1"),
    (CHAT, {"seed": 2**63}, "seed", str(2**63)),
    (CHAT, {"seed": 1.5}, "seed", "1.5"),
    (CHAT, {"logprobs": True, "top_logprobs": 10**9}, "top_logprobs", str(10**9)),
    (CHAT, {"top_logprobs": 2}, "top_logprobs", "logprobs"),
    (CHAT, {"logprobs": 2}, "logprobs", "2"),
    (CHAT, {"max_tokens": 10**8}, "max_tokens", str(10**8)),
    (CHAT, {"max_completion_tokens": 10**8}, "max_completion_tokens", str(10**8)),
    (CHAT, {"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens", "4"),
    (CHAT, {"min_tokens": 9, "max_tokens": 8}, "min_tokens", "9"),
    (CHAT, {"stop": ["a", "b", "c", "d", "e"]}, "stop", "5"),
    (CHAT, {"seed": 10**400}, "seed", "over 40 digits"),
    (CHAT, {"top_k": 10**400}, "top_k", "over 40 digits"),
    (CHAT, {"repetition_penalty": 1e-320}, "repetition_penalty", "1e-320"),
    (CHAT, {"logit_bias": {"١": 1}}, "logit_bias", "١"),
    (CHAT, {"logit_bias": {"1": 1, "01": 2}}, "logit_bias", '"01"'),
    (CHAT, {"messages": [{"role": "assistant", "content": None}]}, "messages.0.content", "required"),
    (CHAT, {"messages": [{"role": "user", "content": "x", "contnt": None}]}, "messages.0.contnt", "unknown field"),
    (CHAT, {"messages": [{"role": "user", "content": "x", "tool_calls": [{}]}]}, "messages.0.tool_calls", "[{}]"),
    (CHAT, {"k" * 10**5: 1}, "k" * 10**5, 'unknown field "kkk'),
    (CHAT, {"stop": [""]}, "stop", "0 characters"),
    (CHAT, {"stop": 3}, "stop", "3"),
    (CHAT, {"stop_token_ids": [258]}, "stop_token_ids", "258"),
    (CHAT, {"logit_bias": {"258": 1}}, "logit_bias", "258"),
    (CHAT, {"logit_bias": {"9" * 5000: 1}}, "logit_bias", "99"),
    (CHAT, {"logit_bias": {"a": 1}}, "logit_bias", '"a"'),
    (CHAT, {"logit_bias": {"1": 101}}, "logit_bias", "logit_bias[1] is 101"),
    (CHAT, {"stream_options": {"include_usage": True}}, "stream_options", "stream"),
    (CHAT, {"stream": True, "stream_options": {"usage": True}}, "stream_options.usage", "unknown field"),
    (CHAT, {"speculative": True}, "speculative", "speculative is true; it must be an object"),
    (CHAT, {"logit_bias": [1]}, "logit_bias", "logit_bias is [1]; it must be an object"),
    (CHAT, {"speculative": {"enable": False}}, "speculative.enable", "unknown field"),
    (CHAT, {"speculative": {"num_speculative_tokens": 0}}, "speculative.num_speculative_tokens", "0"),
    (CHAT, {"messages": []}, "messages", "at least 1"),
    (CHAT, {"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role", "tool"),
    (CHAT, {"messages": [{"role": "user", "content": "x", "name": "y"}]}, "messages.0.name", "not support"),
    (CHAT, {"messages": [{"role": "user"}]}, "messages.0.content", "required"),
    (
        CHAT,
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "messages.0.content",
        "image_url",
    ),
    (CHAT, {"messages": [{"role": "user", "content": "x" * 300}]}, "messages", "256"),
    (COMPLETIONS, {"echo": True}, "echo", "true"),
    (COMPLETIONS, {"best_of": 2}, "best_of", "2"),
    (COMPLETIONS, {"suffix": "x"}, "suffix", "x"),
    (COMPLETIONS, {"prompt_logprobs": 1}, "prompt_logprobs", "1"),
    (COMPLETIONS, {"logprobs": 21}, "logprobs", "21"),
    (COMPLETIONS, {"max_completion_tokens": 4}, "max_completion_tokens", "unknown field"),
    (COMPLETIONS, {"prompt": ""}, "prompt", "empty"),
    (COMPLETIONS, {"prompt": []}, "prompt", "0 entries"),
    (COMPLETIONS, {"prompt": ["a"] * 65}, "prompt", "65"),
    (COMPLETIONS, {"prompt": [1, 258]}, "prompt", "258"),
    (COMPLETIONS, {"prompt": [1, -1]}, "prompt", "-1"),
    (COMPLETIONS, {"prompt": [["a"]]}, "prompt", "token ids"),
    (COMPLETIONS, {"prompt": {"a": 1}}, "prompt", "string"),
    (COMPLETIONS, {"prompt": [7] * 256}, "prompt", "256"),
]


@pytest.mark.parametrize(("path", "fields", "param", "part"), REFUSED, ids=lambda value: str(value)[:48])
async def test_a_field_that_cannot_be_honoured_is_a_400_that_names_it(
    client: Client, backend: ScriptedBackend, path: str, fields: dict[str, Any], param: str, part: str
) -> None:
    """Cases S11, S12, Z2, Z4, Z8."""
    async with client() as http:
        answer = await http.post(path, json=_body(path, fields))
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert part in error["message"]
    assert backend.seen == []


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": None, "response_format": {"type": "text"}, "n": None, "stop": None, "user": "u", "logit_bias": None},
        {"stream": True, "stream_options": {"include_usage": None}, "speculative": {"enabled": None}},
        {"messages": [{"role": "assistant", "content": "a", "refusal": None, "tool_calls": None, "annotations": []}]},
        {"tools": [], "tool_choice": "auto", "store": False, "service_tier": "auto", "metadata": {}},
        {"stop": "x", "logit_bias": {"3": -100, "4": 2}, "seed": 2**63 - 1, "temperature": 0, "top_k": -1},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
    ],
)
async def test_what_asks_for_nothing_or_is_supported_passes(client: Client, fields: dict[str, Any]) -> None:
    async with client() as http:
        answer = await http.post(CHAT, json=_body(CHAT, fields))
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"model": NaN}', b"\xff", b"[" * 100_000])
async def test_a_body_that_is_no_json_object_is_a_400(client: Client, body: bytes) -> None:
    async with client() as http:
        answer = await http.post(CHAT, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_fields_reach_the_engine(client: Client, backend: ScriptedBackend) -> None:
    fields = {
        "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "presence_penalty": 1, "frequency_penalty": -1,
        "repetition_penalty": 1.5, "logit_bias": {"5": 3}, "seed": 11, "max_tokens": 9, "min_tokens": 2,
        "stop": ["x", "y"], "stop_token_ids": [4], "ignore_eos": True, "include_stop_str_in_output": True,
        "logprobs": 3, "speculative": {"enabled": False, "num_speculative_tokens": 2},
    }  # fmt: skip
    async with client(speculative_config={"method": "suffix"}) as http:
        assert (await http.post(COMPLETIONS, json=COMPLETION_BODY | fields)).status_code == 200
    [request] = backend.seen
    sent = fields | {"stop": ("x", "y"), "stop_token_ids": (4,), "logit_bias": {5: 3}}
    speculative: Any = sent.pop("speculative")
    assert {name: getattr(request.params, name) for name in sent} == sent
    assert {"enabled": request.speculative.enabled, "num_speculative_tokens": 2} == speculative
    assert request.prompt_ids == tuple(b"hi")


async def test_max_tokens_defaults(client: Client, backend: ScriptedBackend) -> None:
    async with client() as http:
        await http.post(COMPLETIONS, json=COMPLETION_BODY)
        await http.post(COMPLETIONS, json={"model": "m", "prompt": [7] * 250})
        await http.post(CHAT, json=CHAT_BODY)
    short, full, chat = backend.seen
    assert short.params.max_tokens == 16
    assert full.params.max_tokens == 6
    assert chat.params.max_tokens == 256 - len(chat.prompt_ids)
