"""cluster.yaml is one that Ray accepts, and what it runs on its nodes exists here."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from services.config import AppArgs
from services.placement import Machine, place
from tests.house.sources import ROOT

CLUSTER = ROOT / "cluster.yaml"
GIB = 2**30

# Of the two that the files name, from their makers: CPUs and GPU memory; parameters and KV bytes of a token in bf16.
INSTANCES = {"m7i.xlarge": (4, 0.0), "g6.2xlarge": (8, 22.0)}
MODELS = {"Qwen/Qwen3-4B": (4_022_000_000, 36 * 2 * 8 * 128 * 2)}


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


def _instance(cluster: dict[str, Any], kind: str) -> tuple[int, float]:
    return INSTANCES[cluster["available_node_types"][kind]["node_config"]["InstanceType"]]


def _served(cluster: dict[str, Any]) -> AppArgs:
    (path,) = re.findall(r"configs/\w+\.yaml", " ".join(cluster["head_start_ray_commands"]))
    return AppArgs.model_validate(yaml.safe_load((ROOT / path).read_text())["applications"][0]["args"])


def test_what_it_serves_is_placed_while_only_the_head_is_there(cluster: dict[str, Any]) -> None:
    """The head deploys at once; the pending bundles are what the autoscaler starts workers for."""
    cores, _ = _instance(cluster, "head")
    placement = place(_served(cluster), Machine(cores=cores, total_cores=cores, gpus=0, grows=True))
    worker_cores, _ = _instance(cluster, "gpu_worker")
    assert placement.device == "cuda"
    assert sum(bundle["GPU"] for bundle in placement.bundles) == 1
    assert sum(bundle["CPU"] for bundle in placement.bundles) <= worker_cores


def test_what_it_serves_fits_a_worker(cluster: dict[str, Any]) -> None:
    args = _served(cluster)
    parameters, kv_bytes = MODELS[args.model]
    _, gpu_gib = _instance(cluster, "gpu_worker")
    assert args.max_model_len is not None
    assert args.max_num_seqs * args.max_model_len * kv_bytes / GIB <= args.kv_cache_gib
    assert parameters * 2 / GIB + args.kv_cache_gib + 2 <= gpu_gib
    assert args.replicas <= cluster["available_node_types"]["gpu_worker"]["max_workers"]
