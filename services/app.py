"""build_app: the application for Ray Serve: gateway → verifiers, each with its drafter beside it."""

# No `from __future__ import annotations`: Ray Serve reads the class of build_app's argument to validate `args` with it.
import os

import ray
from ray import serve
from ray.serve import Application

from services.config import AppArgs
from services.draft_files.configured import cached_part, configured_directory
from services.draft_files.opening import DirectoryOptions, on_ray
from services.gateway import gateway
from services.placement import Machine, Placement, place
from services.verifier_replica import VerifierReplica

VERIFIER = "Verifier"
GATEWAY = "Gateway"

# Streams wait in the engine's own queue, which can say 429; Serve must not hold them back before it.
_GATEWAY_STREAMS = 10_000
_CONTROL_CALLS = 64
# For what is being answered to end. A verifier that never comes up is told so much later.
_GRACE_S = 10


def build_app(args: AppArgs) -> Application:
    """For `serve run config.yaml` with `import_path: services.app:build_app`; `args` are those of AppArgs."""
    return application(args, cluster(grows=True) if ray.is_initialized() else _this_machine())


def application(args: AppArgs, machine: Machine) -> Application:
    """The same, laid out for a machine that is known."""
    placement = place(args, machine)
    # A relative directory is one from where the application is described, not from where its processes run.
    config = args.speculative_config
    directory = None if config is None else configured_directory(config.drafter)
    verifier = _verifier(args, placement).bind(args, placement, directory)
    front = serve.deployment(
        name=GATEWAY,
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=_GATEWAY_STREAMS,
        graceful_shutdown_timeout_s=_GRACE_S,
    )(gateway(args, VERIFIER, _cache_address(args, directory)))
    return front.bind(verifier)


def _verifier(args: AppArgs, placement: Placement) -> serve.Deployment:
    return serve.deployment(
        name=VERIFIER,
        num_replicas=args.replicas,
        ray_actor_options=placement.verifier_options,
        placement_group_bundles=placement.bundles,
        placement_group_strategy="STRICT_PACK",
        max_ongoing_requests=args.max_num_seqs + args.max_waiting + _CONTROL_CALLS,
        health_check_period_s=2,
        graceful_shutdown_timeout_s=_GRACE_S,
        max_constructor_retry_count=1,  # a model that cannot be loaded once cannot be loaded twice
    )(VerifierReplica)


def _cache_address(args: AppArgs, directory: DirectoryOptions | None) -> str | None:
    """Of the service that holds the draft files; None where there are none."""
    if directory is not None:
        return on_ray(directory)
    part = None if args.speculative_config is None else cached_part(args.speculative_config.drafter)
    return None if part is None else part.address


def cluster(*, grows: bool) -> Machine:
    """The Ray that this process is connected to; `grows` where nodes may join that are not there yet."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    return Machine(
        cores=int(max(node.get("CPU", 0) for node in nodes)),
        total_cores=int(sum(node.get("CPU", 0) for node in nodes)),
        gpus=int(sum(node.get("GPU", 0) for node in nodes)),
        grows=grows,
    )


def _this_machine() -> Machine:
    """What Ray will find when it starts here."""
    import torch  # only asked where Ray does not know the GPUs yet

    cores = len(os.sched_getaffinity(0))
    return Machine(cores=cores, total_cores=cores, gpus=torch.cuda.device_count())
