"""A target deep enough for published nets, and an engine that must say with their drafts what it says without."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness.tiny import save_tiny
from drafters.registry import build_drafter, build_fusion, parse_config
from modeling.target import TargetSpec, load_target
from protos.messages import Request
from protos.sampling_params import SamplingParams
from services.transports.local import LocalDrafter
from tests.drafters.draft_models import tiny_config
from tests.drafters.featured import context
from tests.fakes.running import run
from verifier.engine import Engine
from verifier.engine_config import EngineConfig

TEXT = tuple((7 * i) % 250 for i in range(12))
DRAFT = 4


def save_deep(folder: Path) -> Path:
    config = tiny_config()
    config.num_hidden_layers = 8
    return save_tiny(folder, config)


def assert_text_stays(method: str, net: Path, target: Path) -> None:
    loaded = load_target(TargetSpec(model=str(target), dtype="fp32", device="cpu", threads=1))
    params = SamplingParams(temperature=0.0, max_tokens=24)
    requests = [Request(request_id=str(i), prompt_ids=TEXT[i:], params=params) for i in range(2)]
    plain = run(Engine(loaded, EngineConfig(num_speculative_tokens=0)), requests)
    given = parse_config({"method": method, "model": str(net), "num_speculative_tokens": DRAFT})
    where, limits = context(target), EngineConfig(num_speculative_tokens=DRAFT, draft_timeout_s=60)
    engine = Engine(loaded, limits, LocalDrafter(build_drafter(given, where)), build_fusion(given, where))
    drafted = run(engine, requests)
    assert all(outcome.error is None for outcome in drafted.values())
    assert {name: each.tokens for name, each in drafted.items()} == {name: each.tokens for name, each in plain.items()}
    assert engine.stats().speculation.verified > 0
