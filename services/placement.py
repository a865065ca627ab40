"""placement: which CPUs, threads and GPUs a verifier and its drafter get, kept together on one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drafters.model_config import ModelConfig
from drafters.registry import parts_of
from services.config import AppArgs

# As in `modeling`, which a worker may load later than torch.
ENV = {"OMP_WAIT_POLICY": "passive"}

# Where the GPU computes, the CPU only prepares its work.
_THREADS_BESIDE_GPU = 1
_DRAFTER_THREADS = 1
_DRAFTER_GPU_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is now: `cores` of the largest node, `total_cores` and `gpus` of all.

    grows: a cluster, where what is asked for and missing is waited for; a pending placement group is what makes Ray's
    autoscaler start nodes.
    """

    cores: int
    total_cores: int
    gpus: int
    grows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One replica's share. `bundles` is its placement group, STRICT_PACK; the verifier takes the first bundle.

    drafter_options: resources of the drafter's actor, which takes bundle `drafter_bundle`.
    """

    device: str
    verifier_threads: int
    drafter_threads: int
    bundles: list[dict[str, float]]
    verifier_options: dict[str, Any]
    drafter_options: dict[str, Any]
    drafter_bundle: int


def place(args: AppArgs, machine: Machine) -> Placement:
    """Divides the machine; ValueError where the arguments ask for more than there is or can be."""
    models = _drafters_models(args)
    device = _device(args, machine)
    drafter_threads = max((model.draft_threads or _DRAFTER_THREADS for model in models), default=0)
    threads = args.threads or _default_threads(args, machine, device, drafter_threads)
    verifier_gpu, drafter_gpu = _gpu_shares(device, models)
    if not machine.grows:
        _check_enough(args.replicas, machine, threads=threads + drafter_threads, gpus=verifier_gpu + drafter_gpu)
    verifier = _bundle(threads, verifier_gpu)
    drafter = _bundle(drafter_threads, drafter_gpu)
    return Placement(
        device=device,
        verifier_threads=threads,
        drafter_threads=drafter_threads,
        # A drafter without a model needs no resources, and a bundle cannot be empty: it lives in the verifier's.
        bundles=[verifier, drafter] if models else [verifier],
        verifier_options=_actor_options(verifier),
        drafter_options=_actor_options(drafter),
        drafter_bundle=int(bool(models)),
    )


def _drafters_models(args: AppArgs) -> list[ModelConfig]:
    """What a drafter's actor has to run, nothing where it has no actor or no model."""
    speculative = args.speculative_config
    if speculative is None or speculative.transport == "local":
        return []
    return [part for part in parts_of(speculative.drafter) if isinstance(part, ModelConfig)]


def _default_threads(args: AppArgs, machine: Machine, device: str, drafter_threads: int) -> int:
    """On CPU an equal share for each replica, one core left to HTTP where there are more than two."""
    if device == "cuda":
        return _THREADS_BESIDE_GPU
    share = min(machine.cores, machine.total_cores // args.replicas) - drafter_threads
    return max(1, share - int(machine.cores > 2))


def _check_enough(replicas: int, machine: Machine, *, threads: int, gpus: float) -> None:
    """What one replica takes, times their number, is there."""
    if replicas * threads > machine.total_cores:
        raise ValueError(
            f"{replicas} replicas of {threads} threads need {replicas * threads} cores; "
            f"there are {machine.total_cores}: lower threads or replicas"
        )
    if replicas * gpus > machine.gpus:
        raise ValueError(
            f"{replicas} replicas on 'cuda' need {replicas * gpus:g} GPUs; there are {machine.gpus}: "
            "lower replicas or use device 'cpu'"
        )


def _device(args: AppArgs, machine: Machine) -> str:
    """`auto` takes a GPU where each replica finds one now."""
    if args.device.startswith("cuda:"):
        raise ValueError(f"device is {args.device!r}; Ray assigns the GPU of each replica, so write 'cuda'")
    if args.device == "auto":
        return "cuda" if machine.gpus >= args.replicas else "cpu"
    return args.device


def _gpu_shares(device: str, models: Sequence[ModelConfig]) -> tuple[float, float]:
    """GPUs of one verifier and of its drafter, which share one where both compute on it."""
    verifier = device == "cuda"
    drafter = False
    for wanted in (model.draft_device for model in models):
        if wanted is not None and wanted.startswith("cuda:"):
            raise ValueError(
                f"speculative_config: draft_device is {wanted!r}; Ray assigns the GPU of each drafter, so write 'cuda'"
            )
        drafter |= verifier if wanted in {None, "auto"} else wanted == "cuda"
    if verifier and drafter:
        return 1.0 - _DRAFTER_GPU_SHARE, _DRAFTER_GPU_SHARE
    return float(verifier), float(drafter)


def _bundle(threads: int, gpu: float) -> dict[str, float]:
    return {"CPU": float(threads)} | ({"GPU": gpu} if gpu else {})


def _actor_options(bundle: dict[str, float]) -> dict[str, Any]:
    return {
        "num_cpus": bundle["CPU"],
        "num_gpus": bundle.get("GPU", 0.0),
        "runtime_env": {"env_vars": ENV},
    }
