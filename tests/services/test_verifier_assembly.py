"""A verifier put together from options, its learned drafter in the same process: what health and metrics say of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.harness.tiny import tiny_llama
from modeling.block_checkpoint import BLOCK_NETS
from protos.messages import Request
from protos.sampling_params import SamplingParams
from services.backend import Refusal, Speculation
from services.config import AppArgs
from services.metrics import exposition
from services.placement import Machine, place
from services.verifier_assembly import assemble
from services.verifier_service import VerifierService
from tests.fakes.block_nets import DSPARK, random_net

REQUEST = Request(
    request_id="r",
    prompt_ids=(5, 6, 7),
    params=SamplingParams(temperature=0, seed=0, max_tokens=12, ignore_eos=True),
)


@pytest.fixture
async def service(model: str, tmp_path: Path) -> AsyncIterator[VerifierService]:
    BLOCK_NETS.save(random_net(hidden_size=tiny_llama().hidden_size, **DSPARK), tmp_path)
    speculative = {"method": "dspark", "model": str(tmp_path), "num_speculative_tokens": 4, "transport": "local"}
    options = {"model": model, "device": "cpu", "max_num_seqs": 2, "max_model_len": 64}
    args = AppArgs.model_validate(options | {"speculative_config": speculative})
    placement = place(args, Machine(cores=1, total_cores=1, gpus=0))
    assembly = await assemble(args, placement, engine="0", drafter_name="unused")
    yield assembly.service
    assembly.shutdown()


async def test_a_learned_drafter_is_named_and_counted(service: VerifierService) -> None:
    outcomes = [outcome async for outcome in service.generate([REQUEST])]
    assert not any(isinstance(outcome, Refusal) for outcome in outcomes)
    assert await service.probe() == Speculation(method="dspark", up=True)
    text = exposition(await service.metrics()).decode()
    for counter in ("spec_decode_num_drafts", "spec_decode_num_draft_tokens"):
        (line,) = [line for line in text.splitlines() if line.startswith(f"vllm:{counter}_total")]
        assert float(line.rpartition(" ")[2]) > 0
    positions = [line for line in text.splitlines() if "accepted_tokens_per_pos_total{" in line]
    assert len(positions) == 4
    (errors,) = [line for line in text.splitlines() if "drafter_events_total{" in line and 'event="errors"' in line]
    assert errors.endswith(" 0.0")
