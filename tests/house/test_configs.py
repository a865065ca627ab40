"""Every file in configs/ is one that Serve's schema and ours accept."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from services.config import AppArgs
from tests.house.sources import ROOT

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


@pytest.fixture(params=CONFIGS, ids=lambda path: path.name)
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    path: Path = request.param
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def test_there_are_a_cpu_and_a_gpu_example() -> None:
    devices = {yaml.safe_load(path.read_text())["applications"][0]["args"]["device"] for path in CONFIGS}
    assert devices == {"cpu", "cuda"}


def test_serve_accepts_it(config: dict[str, Any]) -> None:
    (application,) = ServeDeploySchema.model_validate(config).applications
    module, name = application.import_path.split(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_the_arguments_are_ours(config: dict[str, Any]) -> None:
    arguments = config["applications"][0]["args"]
    parsed = AppArgs.model_validate(arguments)
    assert parsed.speculative_config is not None
    assert parsed.engine_config().num_speculative_tokens == arguments["speculative_config"]["num_speculative_tokens"]
    assert parsed.target_spec().model == arguments["model"]


def test_a_misspelt_argument_would_be_noticed(config: dict[str, Any]) -> None:
    arguments = copy.deepcopy(config["applications"][0]["args"])
    arguments["max_num_seq"] = arguments.pop("max_num_seqs")
    with pytest.raises(ValueError, match="max_num_seq"):
        AppArgs.model_validate(arguments)
