"""cluster.yaml is one that Ray accepts, and what it runs on its nodes exists here."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from tests.house.sources import ROOT

CLUSTER = ROOT / "cluster.yaml"


@pytest.fixture
def cluster() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(CLUSTER.read_text())
    return loaded


def test_ray_accepts_it(cluster: dict[str, Any]) -> None:
    validate_config(prepare_config(cluster))


def test_ray_accepts_it_for_machines_one_already_has(cluster: dict[str, Any]) -> None:
    for key in ("available_node_types", "head_node_type", "max_workers"):
        del cluster[key]
    commented = re.search(r"provider: (\{type: local.*\})", CLUSTER.read_text())
    assert commented is not None
    cluster["provider"] = yaml.safe_load(commented[1])
    validate_config(prepare_config(cluster))


def test_it_has_gpu_workers_and_every_node_gets_this_folder(cluster: dict[str, Any]) -> None:
    kinds = cluster["available_node_types"]
    assert cluster["head_node_type"] in kinds
    assert kinds["gpu_worker"]["max_workers"] >= 1
    assert cluster["file_mounts"]["~/paradraft"] == "."


def test_what_it_runs_exists(cluster: dict[str, Any]) -> None:
    commands = " ".join((*cluster["setup_commands"], *cluster["head_start_ray_commands"]))
    targets = re.findall(r"make -C ~/paradraft (\w+)", commands)
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert all(f"\n{target}:" in makefile for target in targets)
    served = re.findall(r"configs/\w+\.yaml", commands)
    assert served
    assert all((ROOT / path).is_file() for path in served)
