"""A tiny random target for engine tests, and engines over it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.harness.tiny import save_tiny
from modeling.target import Target, TargetSpec, load_target
from protos.interfaces import AsyncDrafter, Drafter
from services.transports.local import LocalDrafter
from tests.fakes.tiny_models import CONFIGS
from verifier.engine import Engine
from verifier.engine_config import EngineConfig

MakeEngine = Callable[..., Engine]


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    path = save_tiny(tmp_path_factory.mktemp("tiny"), CONFIGS["qwen3"])
    return load_target(TargetSpec(model=str(path), dtype="fp32", device="cpu", max_num_seqs=4, kv_cache_gib=0.1))


@pytest.fixture
def make_engine(tiny_target: Target) -> MakeEngine:
    def make(drafter: Drafter | None = None, **changes: object) -> Engine:
        options = {"num_speculative_tokens": 7, "max_num_batched_tokens": 64, "draft_timeout_s": 30} | changes
        asynchronous: AsyncDrafter | None = LocalDrafter(drafter) if drafter else None
        return Engine(tiny_target, EngineConfig(**options), asynchronous)  # type: ignore[arg-type]

    return make
