"""placement: which CPUs, threads and GPUs a verifier and its drafter get, kept together on one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.config import AppArgs

# Spinning threads of one process starve those of another: with more runnable threads than cores a two-thread product
# was measured to take a thousand times as long.
ENV = {"OMP_WAIT_POLICY": "passive"}

_DRAFTER_GPU_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is: `cores` of the largest node, `total_cores` and `gpus` of the cluster."""

    cores: int
    total_cores: int
    gpus: int


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
    """Divides the machine; ValueError where the arguments ask for more than there is."""
    speculative = args.speculative_config
    in_actor = speculative is not None and speculative.transport != "local"
    models = in_actor and speculative is not None and speculative.has_model
    device = _device(args, machine)
    drafter_threads = int(models)
    threads = args.threads or _default_threads(args, machine, drafter_threads)
    needed = args.replicas * (threads + drafter_threads)
    if needed > machine.total_cores:
        raise ValueError(
            f"{args.replicas} replicas of {threads + drafter_threads} threads need {needed} cores; "
            f"there are {machine.total_cores}: lower threads or replicas"
        )
    gpu = device == "cuda"
    share = _DRAFTER_GPU_SHARE if models and gpu else 0.0
    verifier = {"CPU": float(threads)} | ({"GPU": 1.0 - share} if gpu else {})
    drafter = {"CPU": float(drafter_threads)} | ({"GPU": share} if gpu else {})
    return Placement(
        device=device,
        verifier_threads=threads,
        drafter_threads=drafter_threads,
        # A drafter without a model needs no resources, and a bundle cannot be empty: it lives in the verifier's.
        bundles=[verifier, drafter] if models else [verifier],
        verifier_options=_actor_options(verifier),
        drafter_options=_actor_options(drafter),
        drafter_bundle=int(models),
    )


def _default_threads(args: AppArgs, machine: Machine, drafter_threads: int) -> int:
    """An equal share for each replica, one core left to HTTP where there are more than two."""
    share = min(machine.cores, machine.total_cores // args.replicas) - drafter_threads
    return max(1, share - int(machine.cores > 2))


def _device(args: AppArgs, machine: Machine) -> str:
    if args.device.startswith("cuda:"):
        raise ValueError(f"device is {args.device!r}; Ray assigns the GPU of each replica, so write 'cuda'")
    if args.device == "cuda" and machine.gpus < args.replicas:
        raise ValueError(f"device is 'cuda' with {args.replicas} replicas; the cluster has {machine.gpus} GPUs")
    if args.device == "auto":
        return "cuda" if machine.gpus >= args.replicas else "cpu"
    return args.device


def _actor_options(bundle: dict[str, float]) -> dict[str, Any]:
    return {
        "num_cpus": bundle["CPU"],
        "num_gpus": bundle.get("GPU", 0.0),
        "runtime_env": {"env_vars": ENV},
    }
