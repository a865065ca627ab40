"""A verifier whose drafter reads draft files in its own process: they are found, shown in the metrics, and let go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from drafters.cached_config import CachedConfig
from protos.messages import Request
from protos.sampling_params import SamplingParams
from services.backend import Refusal
from services.config import AppArgs
from services.draft_files.opening import open_draft_files
from services.metrics import exposition
from services.placement import Machine, place
from services.verifier_assembly import Assembly, assemble
from services.verifier_service import VerifierService

PARAMS = SamplingParams(temperature=0, seed=0, max_tokens=24, ignore_eos=True)
MACHINE = Machine(cores=1, total_cores=1, gpus=0)


async def assembled(model: str, **cached: object) -> Assembly:
    speculative = {"method": "cached", "transport": "local", "pooling": "none", **cached}
    options = {"model": model, "device": "cpu", "max_num_seqs": 2, "max_model_len": 64}
    args = AppArgs.model_validate(options | {"speculative_config": speculative})
    return await assemble(args, place(args, MACHINE), engine="0", drafter_name="unused")


async def answer(service: VerifierService, request_id: str) -> list[int]:
    request = Request(request_id=request_id, prompt_ids=(5, 6, 7, 8, 9), params=PARAMS)
    outcomes = [outcome async for outcome in service.generate([request])]
    verdicts = [verdict for outcome in outcomes if not isinstance(outcome, Refusal) for verdict in outcome]
    return [token for verdict in verdicts for token in verdict.tokens]


async def shown(service: VerifierService) -> dict[str, float]:
    """Whether draft files are up, and how often each event was."""
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(exposition(await service.metrics()).decode()):
        for sample in family.samples:
            if sample.name in {"paradraft:draft_files_up", "paradraft:draft_files_events_total"}:
                values[sample.labels.get("event", "up")] = sample.value
    return values


async def test_they_are_shown_and_let_go(model: str, tmp_path: Path) -> None:
    assembly = await assembled(model, draft_files=str(tmp_path))
    first = await answer(assembly.service, "first")
    while not (await shown(assembly.service))["additions"]:
        await asyncio.sleep(0.005)
    assert await answer(assembly.service, "second") == first
    told = await shown(assembly.service)
    assert (told["up"], told["errors"]) == (1, 0)
    assert told["questions"] > 0
    assert assembly.service._loop.stats().speculation.accepted > 12
    assembly.shutdown()
    open_draft_files(CachedConfig(draft_files=str(tmp_path))).close()


async def test_a_service_that_is_away_is_shown_as_such(model: str, tmp_path: Path) -> None:
    assembly = await assembled(model, address=f"unix:{tmp_path}/nobody")
    assert len(await answer(assembly.service, "r")) == PARAMS.max_tokens
    told = await shown(assembly.service)
    assert told["up"] == 0
    assert told["dropped_questions"] > 0
    assembly.shutdown()


async def test_a_drafter_that_cannot_be_built_lets_go_of_them(model: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="feature_layer"):
        await assembled(model, draft_files=str(tmp_path), pooling="mean", feature_layer=99)
    open_draft_files(CachedConfig(draft_files=str(tmp_path))).close()
