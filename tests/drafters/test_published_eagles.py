"""Published EAGLE nets through the drafters: their drafts are those of the published tensors, and the text stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.harness.tiny import save_tiny
from drafters.registry import build_drafter, build_fusion, parse_config
from modeling.checkpoint_files import Checkpoint
from modeling.target import TargetSpec, load_target
from modeling.target_ends import read_ends
from protos.messages import Request
from protos.sampling_params import SamplingParams
from services.transports.local import LocalDrafter
from tests.drafters.block_drafters import context, featured, features_of
from tests.drafters.draft_models import tiny_config
from tests.fakes.queries import query
from tests.fakes.running import run
from tests.modeling.published_eagles import (
    DEEPSPEC_EAGLE,
    PEAGLE,
    SAFEAILAB,
    SLOTS,
    SPECULATORS_EAGLE,
    PlainPublishedEagle,
    publish_eagle,
    with_layers,
)
from verifier.engine import Engine
from verifier.engine_config import EngineConfig

TEXT = tuple((7 * i) % 250 for i in range(12))
PUBLISHED = [
    pytest.param("eagle3", SAFEAILAB, {}, id="safeailab"),
    pytest.param("eagle3", DEEPSPEC_EAGLE, {}, id="deepspec"),
    pytest.param("eagle3", SPECULATORS_EAGLE, {"fc_norm": True, "norm_output": True}, id="speculators-3.1"),
    pytest.param(
        "eagle3",
        with_layers(SPECULATORS_EAGLE, model_type="qwen3", num_hidden_layers=2),
        {"norm_before_fc": True},
        id="speculators-qwen3",
    ),
    pytest.param("p_eagle", PEAGLE, {}, id="p_eagle"),
    pytest.param("p_eagle", with_layers(PEAGLE, num_hidden_layers=3), {"fc_norm": True}, id="p_eagle-three-layers"),
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tiny_config()
    config.num_hidden_layers = 8
    return save_tiny(tmp_path_factory.mktemp("target"), config)


@pytest.mark.parametrize(("method", "config", "changes"), PUBLISHED)
def test_drafts_are_those_of_the_published_tensors(
    tmp_path: Path, target: Path, method: str, config: dict[str, Any], changes: dict[str, Any]
) -> None:
    folder, tensors = publish_eagle(tmp_path, config, **changes)
    plain = PlainPublishedEagle(config | changes, tensors, read_ends(Checkpoint(str(target)), torch.float32).embedding)
    features = list(features_of(TEXT[:-1]).double().numpy())
    wanted = plain.drafted(TEXT, features, SLOTS) if method == "eagle3" else plain.drafted_at_once(TEXT, features)
    given = parse_config({"method": method, "model": str(folder), "num_speculative_tokens": SLOTS})
    (chunk,) = build_drafter(given, context(target)).draft([featured(query(TEXT, budget=SLOTS))])
    assert list(chunk.tokens) == wanted, chunk


@pytest.mark.parametrize(("method", "config", "changes"), PUBLISHED)
def test_the_text_is_that_of_plain_decoding(
    tmp_path: Path, target: Path, method: str, config: dict[str, Any], changes: dict[str, Any]
) -> None:
    folder, _ = publish_eagle(tmp_path, config, **changes)
    loaded = load_target(TargetSpec(model=str(target), dtype="fp32", device="cpu", threads=1))
    params = SamplingParams(temperature=0.0, max_tokens=24)
    requests = [Request(request_id=str(i), prompt_ids=TEXT[i:], params=params) for i in range(2)]
    plain = run(Engine(loaded, EngineConfig(num_speculative_tokens=0)), requests)
    given, where = parse_config({"method": method, "model": str(folder), "num_speculative_tokens": 4}), context(target)
    limits = EngineConfig(num_speculative_tokens=4, draft_timeout_s=60)
    engine = Engine(loaded, limits, LocalDrafter(build_drafter(given, where)), build_fusion(given, where))
    drafted = run(engine, requests)
    assert {name: each.tokens for name, each in drafted.items()} == {name: each.tokens for name, each in plain.items()}
    assert engine.stats().speculation.verified > 0
