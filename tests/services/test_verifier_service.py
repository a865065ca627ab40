"""VerifierService over a real engine and a tiny model: batches of sequences, refusals, aborts, health, latencies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.harness.tiny import save_tiny
from modeling.target import Target, TargetSpec, load_target
from protos.messages import Finish, Request, Verdict
from protos.sampling_params import SamplingParams
from services.backend import Outcome, Refusal, Speculation
from services.metrics import exposition
from services.verifier_service import Identity, VerifierService
from verifier.engine import Engine
from verifier.engine_config import EngineConfig
from verifier.engine_loop import EngineLoop

# One test kills an engine's thread on purpose; pytest notices it during a later one.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

MAX_WAITING = 3
GREEDY = SamplingParams(temperature=0, seed=0, max_tokens=8, ignore_eos=True)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    model = save_tiny(tmp_path_factory.mktemp("tiny"))
    return load_target(TargetSpec(model=str(model), dtype="fp32", device="cpu", threads=1, max_num_seqs=2))


@pytest.fixture
def service(target: Target) -> Iterator[VerifierService]:
    service = _service(Engine(target, EngineConfig(max_waiting=MAX_WAITING)), target)
    yield service
    service.shutdown()


def _service(engine: Engine, target: Target) -> VerifierService:
    loop = EngineLoop(engine)
    loop.start()
    return VerifierService(target, loop, Identity(model_name="m", engine="7"), max_waiting=MAX_WAITING)


def _request(name: str, **changes: Any) -> Request:
    return Request(request_id=name, prompt_ids=(5, 6, 7), params=replace(GREEDY, **changes))


async def _all(service: VerifierService, *requests: Request) -> list[Outcome]:
    return [outcome async for outcome in service.generate(requests)]


def _tokens(outcomes: list[Outcome], name: str) -> tuple[int, ...]:
    verdicts = [v for outcome in outcomes if not isinstance(outcome, Refusal) for v in outcome if v.request_id == name]
    return tuple(token for verdict in verdicts for token in verdict.tokens)


async def test_sequences_of_one_call_come_together_and_each_ends_once(service: VerifierService) -> None:
    outcomes = await _all(service, _request("a"), _request("b", max_tokens=3))
    verdicts = [verdict for outcome in outcomes if not isinstance(outcome, Refusal) for verdict in outcome]
    ends = [(verdict.request_id, verdict.finish) for verdict in verdicts if verdict.finish]
    assert sorted(ends) == [("a", Finish.LENGTH), ("b", Finish.LENGTH)]
    assert _tokens(outcomes, "a")[:3] == _tokens(outcomes, "b")
    assert len(_tokens(outcomes, "a")) == 8


async def test_what_can_never_run_is_a_400(service: VerifierService) -> None:
    [refusal] = await _all(service, _request("a", max_tokens=10**6))
    assert isinstance(refusal, Refusal)
    assert refusal.status == 400
    assert "1000000" in refusal.message


async def test_a_call_that_does_not_fit_the_queue_is_refused_whole(service: VerifierService) -> None:
    *_, refusal = await _all(service, *(_request(str(i), max_tokens=3000) for i in range(9)))
    assert isinstance(refusal, Refusal)
    assert refusal.status == 429
    assert refusal.retry_after_s is not None
    await _becomes_idle(service)


async def test_leaving_a_call_aborts_its_sequences(service: VerifierService) -> None:
    async with aclosing(service.generate([_request("a", max_tokens=3000), _request("b", max_tokens=3000)])) as outcomes:
        await anext(outcomes)
    await _becomes_idle(service)
    again = await _all(service, _request("a"))
    assert len(_tokens(again, "a")) == 8


async def test_a_dead_engine_is_unhealthy_and_fails_its_requests(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case D4."""
    engine = Engine(target, EngineConfig())
    service = _service(engine, target)
    service.check_health()

    def _die() -> list[Verdict]:
        raise RuntimeError("the engine is broken on purpose")

    monkeypatch.setattr(engine, "step", _die)
    [outcome] = await _all(service, _request("a"))
    assert not isinstance(outcome, Refusal)
    assert outcome[0].finish is Finish.ERROR
    with pytest.raises(RuntimeError, match="on purpose"):
        service.check_health()
    [refusal] = await _all(service, _request("b"))
    for answer in (refusal, await service.probe()):
        assert isinstance(answer, Refusal)
        assert answer.status == 500


async def test_engines_start_and_stop_ten_times(target: Target) -> None:
    """Case D5."""
    for _ in range(10):
        service = _service(Engine(target, EngineConfig()), target)
        assert len(_tokens(await _all(service, _request("a")), "a")) == 8
        service.shutdown()
        with pytest.raises(RuntimeError, match="not running"):
            service.check_health()


async def test_the_card_tells_how_many_sequences_the_engine_holds(service: VerifierService, target: Target) -> None:
    assert (await service.card()).max_sequences == target.runner.num_slots + MAX_WAITING


async def test_a_probe_decodes_a_token_that_is_nobodys_latency(service: VerifierService) -> None:
    assert await service.probe() == Speculation()
    values = await _values(service)
    histograms = [name for name in values if name.endswith("_count")]
    assert len(histograms) == 9
    assert {values[name] for name in histograms} == {0}
    assert values["vllm:generation_tokens_total"] == 1


async def test_behind_long_answers_a_probe_takes_their_tokens(service: VerifierService) -> None:
    """Neither free slots nor room in the queue is needed: what is asked is whether the engine decodes."""
    everybody = [_request(f"long-{i}", max_tokens=400) for i in range(2 + MAX_WAITING)]
    async with aclosing(service.generate(everybody)) as outcomes:
        await anext(outcomes)
        for _ in range(3):
            assert await service.probe() == Speculation()
        values = await _values(service)
        assert (values["vllm:num_requests_running"], values["vllm:num_requests_waiting"]) == (2, MAX_WAITING)


async def test_a_probe_of_a_failing_forward_is_refused(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    service = _service(Engine(target, EngineConfig()), target)

    def _fail(*_: object) -> None:
        raise RuntimeError("no forward, on purpose")

    monkeypatch.setattr(target.runner, "forward", _fail)
    answer = await service.probe()
    service.shutdown()
    assert isinstance(answer, Refusal)
    assert "forward failed" in answer.message


async def test_metrics_count_requests_tokens_and_times(service: VerifierService) -> None:
    await _all(service, _request("a"), _request("b", max_tokens=1))
    values = await _values(service)
    counts = {
        "vllm:generation_tokens_total": 9,
        "vllm:prompt_tokens_total": 6,
        "vllm:time_to_first_token_seconds_count": 2,
        "vllm:e2e_request_latency_seconds_count": 2,
        "vllm:request_queue_time_seconds_count": 2,
        "vllm:request_prefill_time_seconds_count": 2,
        "vllm:request_decode_time_seconds_count": 2,
        "vllm:request_time_per_output_token_seconds_count": 1,
        "vllm:inter_token_latency_seconds_count": 7,
        "vllm:request_generation_tokens_sum": 9,
    }
    assert {name: values[name] for name in counts} == counts
    parts = ("queue", "prefill", "decode")
    total = sum(values[f"vllm:request_{part}_time_seconds_sum"] for part in parts)
    assert 0 < total <= values["vllm:e2e_request_latency_seconds_sum"] * 1.001
    assert "vllm:spec_decode_num_drafts_total" not in values


async def _values(service: VerifierService) -> dict[str, float]:
    """Samples that have no labels but the engine's."""
    lines = exposition(await service.metrics()).decode().splitlines()
    pairs = [line.rsplit('{engine="7",model_name="m"} ', 1) for line in lines if not line.startswith("#")]
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2}


async def _becomes_idle(service: VerifierService) -> None:
    async with asyncio.timeout(10):
        while True:
            lines = exposition(await service.metrics()).decode().splitlines()
            gauges = [line for line in lines if line.startswith(("vllm:num_requests_", "vllm:kv_cache_usage"))]
            assert len(gauges) == 3
            if all(line.endswith(" 0.0") for line in gauges):
                return
            await asyncio.sleep(0.02)
