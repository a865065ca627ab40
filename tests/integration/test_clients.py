"""The `openai` client and curl against the built-in model."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import openai
import pytest

from tests.integration.conftest import KEY_A, MODEL, Server, eventually
from tests.integration.scrape import value

pytestmark = [pytest.mark.ray, pytest.mark.model]

QUESTION: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
COUNT = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10. 1, 2, 3, 4,"


def test_models(client: openai.OpenAI) -> None:
    [model] = client.models.list().data
    assert model.id == MODEL
    assert client.models.retrieve(MODEL) == model


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=32)
    [choice] = answer.choices
    assert "Paris" in (choice.message.content or "")
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream_joins_to_the_whole_answer_with_the_same_usage(client: openai.OpenAI) -> None:
    """Cases T1, T3, T4."""
    fields: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "seed": 3, "max_tokens": 24}
    whole = client.chat.completions.create(**fields)
    stream = client.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True})
    *chunks, last = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    finishes = [chunk.choices[0].finish_reason for chunk in chunks]
    assert text == whole.choices[0].message.content
    assert finishes == [None] * (len(chunks) - 1) + [whole.choices[0].finish_reason]
    assert last.choices == []
    assert last.usage is not None
    assert whole.usage is not None
    assert last.usage.completion_tokens == whole.usage.completion_tokens
    assert last.usage.prompt_tokens == whole.usage.prompt_tokens


def test_the_first_chunk_comes_while_the_answer_is_being_written(client: openai.OpenAI, server: Server) -> None:
    """Case T7: nothing between engine and client collects chunks."""
    ignore_eos: dict[str, Any] = {"ignore_eos": True}
    with client.completions.create(
        model=MODEL, prompt=COUNT, max_tokens=1800, stream=True, extra_body=ignore_eos
    ) as stream:
        first = next(iter(stream))
        assert first.choices[0].finish_reason is None
        assert value(server, "vllm:num_requests_running") == 1
    assert eventually(lambda: value(server, "vllm:num_requests_running") == 0, within_s=10)


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"seed": 7, "temperature": 1.0, "top_p": 0.95}])
def test_speculation_changes_no_token(server: Server, sampling: dict[str, Any]) -> None:
    body = {"model": MODEL, "prompt": COUNT, "max_tokens": 48, "return_token_ids": True, "return_metrics": True}
    answers = [
        server.post("/v1/completions", body | sampling | {"speculative": speculative}).json()
        for speculative in ({"enabled": False}, {"enabled": True}, {"num_speculative_tokens": 1})
    ]
    ids = [answer["choices"][0]["token_ids"] for answer in answers]
    metrics = [answer["metrics"]["speculative_decoding"] for answer in answers]
    assert ids[0] == ids[1] == ids[2]
    assert len(ids[0]) == answers[0]["usage"]["completion_tokens"]
    assert metrics[0]["num_draft_tokens"] == 0
    assert metrics[1]["num_accepted_draft_tokens"] > 0
    assert metrics[2]["num_verified_tokens"] <= metrics[2]["num_spec_steps"]


def test_a_seed_is_told_and_makes_the_answer_again(server: Server) -> None:
    body = {"model": MODEL, "prompt": "Once upon a time", "n": 2, "max_tokens": 12}
    first = server.post("/v1/completions", body).json()["choices"]
    again = server.post("/v1/completions", body | {"n": 1, "seed": first[0]["seed"]}).json()["choices"]
    other = server.post("/v1/completions", body | {"n": 1, "seed": first[1]["seed"]}).json()["choices"]
    assert first[0]["text"] != first[1]["text"]
    assert again[0]["text"] == first[0]["text"]
    assert other[0]["text"] == first[1]["text"]


def test_several_prompts(client: openai.OpenAI) -> None:
    prompts = ["The sky is", "The grass is"]
    both = client.completions.create(model=MODEL, prompt=prompts, temperature=0, max_tokens=6)
    single = [client.completions.create(model=MODEL, prompt=p, temperature=0, max_tokens=6) for p in prompts]
    assert [choice.text for choice in both.choices] == [one.choices[0].text for one in single]


def test_stop_and_length(client: openai.OpenAI) -> None:
    stopped = client.completions.create(model=MODEL, prompt=COUNT, temperature=0, max_tokens=40, stop=["7"])
    cut = client.completions.create(model=MODEL, prompt=COUNT, temperature=0, max_tokens=5)
    assert stopped.choices[0].finish_reason == "stop"
    assert "7" not in stopped.choices[0].text
    assert "6" in stopped.choices[0].text
    assert cut.choices[0].finish_reason == "length"
    assert cut.usage is not None
    assert cut.usage.completion_tokens == 5


def test_logprobs_do_not_depend_on_speculation(server: Server) -> None:
    body = {"model": MODEL, "prompt": COUNT, "max_tokens": 16, "temperature": 0, "logprobs": 3}
    drafted, plain = (
        server.post("/v1/completions", body | {"speculative": {"enabled": enabled}}).json()["choices"][0]["logprobs"]
        for enabled in (True, False)
    )
    assert drafted["tokens"] == plain["tokens"]
    assert len(drafted["token_logprobs"]) == 16
    assert drafted["token_logprobs"] == pytest.approx(plain["token_logprobs"], abs=1e-4)
    assert all(len(top) >= 3 for top in drafted["top_logprobs"])


def test_chat_logprobs(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=0, max_tokens=8, logprobs=True, top_logprobs=2
    )
    logprobs = answer.choices[0].logprobs
    assert answer.usage is not None
    assert logprobs is not None
    assert logprobs.content is not None
    assert len(logprobs.content) == answer.usage.completion_tokens
    for entry in logprobs.content:
        assert entry.logprob == pytest.approx(entry.top_logprobs[0].logprob)  # greedy: the likeliest


def test_errors_raise_what_the_client_knows(client: openai.OpenAI, server: Server) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=MODEL, messages=QUESTION, top_p=2)
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-4", messages=QUESTION)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    assert (bad.value.param, bad.value.type) == ("top_p", "invalid_request_error")


def test_what_once_killed_servers_is_refused_and_the_server_lives(server: Server) -> None:
    """Cases Z2, Z4."""
    for fields in (
        {"n": 5_000_000},
        {"logprobs": 10**9},
        {"prompt": [10**9]},
        {"logit_bias": {"49152": 1}},
        {"max_tokens": 10**8},
    ):
        assert server.post("/v1/completions", {"model": MODEL, "prompt": "x"} | fields).status_code == 400
    assert server.get("/health").json()["status"] == "ok"


def test_a_tenant_finds_its_own_prefix_and_no_other(server: Server) -> None:
    """Case Z8: what is shared follows the key."""
    prompt = "A prompt that nobody else sends, with a number in it: 4711. " * 4
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 1}

    def _cached(key: str) -> int:
        usage = server.post("/v1/completions", body, key=key).json()["usage"]
        return int(usage["prompt_tokens_details"]["cached_tokens"])

    assert _cached("key-of-a") == 0
    assert _cached("key-of-b") == 0
    assert _cached("key-of-b") > 0


def test_curl(server: Server) -> None:
    body = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 16, "stream": True}
    command = ["curl", "-sSN", f"{server.base}/v1/chat/completions", "-H", f"Authorization: Bearer {KEY_A}"]
    out = subprocess.run([*command, "-d", json.dumps(body)], capture_output=True, check=True, timeout=60).stdout
    *events, done = [line.removeprefix("data: ") for line in out.decode().split("\n\n") if line]
    text = "".join(json.loads(event)["choices"][0]["delta"].get("content", "") for event in events)
    assert done == "[DONE]"
    assert "Paris" in text
