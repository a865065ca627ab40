"""Threads never exceed cores, and a verifier's drafter is packed with it."""

from __future__ import annotations

from typing import Any

import pytest

from services.config import AppArgs
from services.placement import Machine, Placement, place

SUFFIX = {"method": "suffix"}
MODEL = {"method": "draft_model", "model": "x", "num_speculative_tokens": 2}
LAPTOP = Machine(cores=2, total_cores=2, gpus=0)


def _place(machine: Machine, **options: Any) -> Placement:
    return place(AppArgs.model_validate(options), machine)


@pytest.mark.parametrize("cores", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("speculative", [None, SUFFIX, MODEL])
def test_defaults_fit_the_machine(cores: int, replicas: int, speculative: dict[str, Any] | None) -> None:
    machine = Machine(cores=cores, total_cores=cores, gpus=0)
    least = replicas * (2 if speculative is MODEL else 1)
    if least > cores:
        with pytest.raises(ValueError, match="lower threads or replicas"):
            _place(machine, replicas=replicas, speculative_config=speculative)
        return
    placement = _place(machine, replicas=replicas, speculative_config=speculative)
    assert replicas * (placement.verifier_threads + placement.drafter_threads) <= cores
    assert replicas * sum(bundle["CPU"] for bundle in placement.bundles) <= cores
    assert placement.verifier_options["num_cpus"] <= placement.bundles[0]["CPU"]
    assert placement.drafter_options["num_cpus"] <= placement.bundles[placement.drafter_bundle]["CPU"]
    assert placement.verifier_options["runtime_env"]["env_vars"]["OMP_WAIT_POLICY"] == "passive"


def test_a_drafter_in_process_takes_no_bundle() -> None:
    placement = _place(LAPTOP, speculative_config=MODEL | {"transport": "local"})
    assert len(placement.bundles) == 1
    assert placement.drafter_threads == 0


def test_too_many_threads_are_refused_with_the_numbers() -> None:
    with pytest.raises(ValueError, match=r"2 replicas of 4 threads need 8 cores; there are 2"):
        _place(LAPTOP, threads=4, replicas=2)


def test_gpus() -> None:
    machine = Machine(cores=16, total_cores=16, gpus=1)
    alone = _place(machine, speculative_config=SUFFIX)
    shared = _place(machine, speculative_config=MODEL)
    assert (alone.device, alone.verifier_options["num_gpus"]) == ("cuda", 1.0)
    assert [bundle["GPU"] for bundle in shared.bundles] == [0.8, 0.2]
    assert _place(machine, device="cpu").verifier_options["num_gpus"] == 0
    with pytest.raises(ValueError, match="2 replicas on 'cuda' need 2 GPUs; there are 1"):
        _place(machine, device="cuda", replicas=2)
    with pytest.raises(ValueError, match="Ray assigns the GPU"):
        _place(machine, device="cuda:0")


def test_a_cluster_is_asked_for_what_it_has_not_yet() -> None:
    head = Machine(cores=4, total_cores=4, gpus=0, grows=True)
    alone = _place(head, device="cuda", replicas=3, speculative_config=SUFFIX)
    assert (alone.device, alone.verifier_threads) == ("cuda", 1)
    assert alone.bundles == [{"CPU": 1.0, "GPU": 1.0}]
    assert _place(head, threads=32).bundles == [{"CPU": 32.0}]
    assert _place(head, replicas=9).verifier_threads == 1


def test_threads_and_device_of_the_draft_model_are_its_own() -> None:
    machine = Machine(cores=16, total_cores=16, gpus=1)
    on_cpu = _place(machine, speculative_config=MODEL | {"draft_threads": 6, "draft_device": "cpu"})
    assert on_cpu.drafter_threads == 6
    assert on_cpu.bundles == [{"CPU": 1.0, "GPU": 1.0}, {"CPU": 6.0}]
    assert (on_cpu.drafter_options["num_cpus"], on_cpu.drafter_options["num_gpus"]) == (6, 0)
    on_gpu = _place(machine, device="cpu", threads=8, speculative_config=MODEL | {"draft_device": "cuda"})
    assert on_gpu.bundles == [{"CPU": 8.0}, {"CPU": 1.0, "GPU": 1.0}]
    assert _place(LAPTOP, speculative_config=MODEL | {"draft_threads": 1}).verifier_threads == 1
    with pytest.raises(ValueError, match="1 replicas of 3 threads need 3 cores"):
        _place(LAPTOP, speculative_config=MODEL | {"draft_threads": 2})
    with pytest.raises(ValueError, match="need 1 GPUs; there are 0"):
        _place(LAPTOP, speculative_config=MODEL | {"draft_device": "cuda"})
    with pytest.raises(ValueError, match="draft_device is 'cuda:1'"):
        _place(machine, speculative_config=MODEL | {"draft_device": "cuda:1"})


def test_a_mixed_drafter_gets_what_its_models_need() -> None:
    machine = Machine(cores=16, total_cores=16, gpus=1)
    dspark = {"method": "dspark", "model": "y", "draft_threads": 3, "draft_device": "cpu"}
    mixed = {"method": "mixed", "drafters": [SUFFIX, MODEL | {"draft_device": "cpu"}, dspark]}
    beside = _place(machine, speculative_config=mixed)
    assert (beside.drafter_threads, [bundle.get("GPU", 0) for bundle in beside.bundles]) == (3, [1.0, 0])
    mixed["drafters"] = [SUFFIX, MODEL, dspark]
    assert [bundle["GPU"] for bundle in _place(machine, speculative_config=mixed).bundles] == [0.8, 0.2]
    mixed["drafters"] = [SUFFIX]
    assert len(_place(machine, speculative_config=mixed).bundles) == 1
