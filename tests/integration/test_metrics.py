"""Identities that dashboards rely on, over one replica and over two."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.integration.conftest import MODEL, Server
from tests.integration.scrape import samples, value

pytestmark = [pytest.mark.ray, pytest.mark.model]

DRAFTS = "vllm:spec_decode_num_drafts_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


def _by_engine(server: Server, name: str, base: str) -> dict[str, float]:
    totals: dict[str, float] = {}
    for sample in samples(server, name, base=base):
        engine = sample.labels["engine"]
        totals[engine] = totals.get(engine, 0.0) + sample.value
    return totals


def test_counters_say_what_the_responses_said(server: Server) -> None:
    names = {
        "prompt_tokens": "vllm:prompt_tokens_total",
        "completion_tokens": "vllm:generation_tokens_total",
    }
    body = {"model": MODEL, "prompt": "a b c a b c a b", "max_tokens": 20, "temperature": 0, "return_metrics": True}
    before = {name: value(server, name) for name in (*names.values(), DRAFTS, ACCEPTED)}
    answer = server.post("/v1/completions", body).json()
    after = {name: value(server, name) for name in before}
    for field, name in names.items():
        assert after[name] - before[name] == answer["usage"][field]
    told = answer["metrics"]["speculative_decoding"]
    assert after[DRAFTS] - before[DRAFTS] == told["num_spec_steps"]
    assert after[ACCEPTED] - before[ACCEPTED] == told["num_accepted_draft_tokens"]
    assert sum(told["acceptance_histogram"]) == told["num_spec_steps"]


def test_two_replicas_are_two_engines_and_nothing_is_lost(server: Server) -> None:
    """Case X2: accepted length from the sums equals that from the positions."""
    body: dict[str, Any] = {
        "model": "tiny",
        "prompt": "ab" * 20,
        "max_tokens": 40,
        "ignore_eos": True,
        "temperature": 0,
    }
    names = ("vllm:generation_tokens_total", "vllm:request_success_total", "vllm:e2e_request_latency_seconds_count")
    before = {name: value(server, name, base=server.two) for name in names}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: server.post("/v1/completions", body, base=server.two), range(16)))
    assert len({answer.json()["choices"][0]["text"] for answer in answers}) == 1
    after = {name: value(server, name, base=server.two) for name in names}
    assert [after[name] - before[name] for name in names] == [16 * 40, 16, 16]
    generated = _by_engine(server, "vllm:generation_tokens_total", server.two)
    assert set(generated) == {"0", "1"}
    assert all(generated.values())
    drafts, accepted, positions = (_by_engine(server, name, server.two) for name in (DRAFTS, ACCEPTED, PER_POSITION))
    for engine in generated:
        assert accepted[engine] == positions[engine]
    length = 1 + sum(positions.values()) / sum(drafts.values())
    assert length == 1 + sum(accepted.values()) / sum(drafts.values())
