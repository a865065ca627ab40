"""Published EAGLE nets through the drafters: their drafts are those of the published tensors, and the text stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from drafters.registry import build_drafter, parse_config
from modeling.checkpoint_files import Checkpoint
from modeling.target_ends import read_ends
from tests.drafters.featured import context, featured, features_of
from tests.drafters.published import TEXT, assert_text_stays, save_deep
from tests.fakes.queries import query
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
    return save_deep(tmp_path_factory.mktemp("target"))


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
    assert_text_stays(method, folder, target)
