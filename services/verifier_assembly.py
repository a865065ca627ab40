"""assemble: a verifier from its options: model, drafter, engine, in that order. The heavy imports are here."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace

from modeling.target import load_target
from protos.interfaces import AsyncDrafter
from services.config import AppArgs
from services.drafter_supervisor import DrafterSupervisor
from services.in_process import drafter_context, fusion_for, local_drafter
from services.placement import Placement
from services.speculative_config import SpeculativeConfig
from services.transports.grpc_client import GrpcDrafter
from services.verifier_service import Identity, VerifierService
from verifier.engine import Engine
from verifier.engine_loop import EngineLoop

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """A running verifier. `supervisor` keeps its drafter's actor alive as long as somebody holds it."""

    service: VerifierService
    supervisor: DrafterSupervisor | None

    def shutdown(self) -> None:
        """Ends the engine, and leaves no file behind."""
        self.service.shutdown()
        if self.supervisor is not None:
            self.supervisor.close()


async def assemble(args: AppArgs, placement: Placement, *, engine: str, drafter_name: str) -> Assembly:
    """Loads and starts everything, off the event loop where it blocks. `engine` labels the metrics."""
    spec = replace(args.target_spec(), device=placement.device, threads=placement.verifier_threads)
    target = await asyncio.to_thread(load_target, spec, progress=logger.info)
    drafter: AsyncDrafter | None
    supervisor: DrafterSupervisor | None = None
    speculative = args.speculative_config
    if speculative is None or speculative.transport == "local":
        drafter = await asyncio.to_thread(local_drafter, args, target)
    else:
        context = drafter_context(args, target, threads=placement.drafter_threads or placement.verifier_threads)
        supervisor = DrafterSupervisor(
            speculative.drafter, context, placement, name=drafter_name, socket=speculative.socket or "unix"
        )
        drafter = await _remote(supervisor)
    loop = EngineLoop(Engine(target, args.engine_config(), drafter, fusion_for(args, target)))
    loop.start()
    identity = _identity(args, speculative, engine)
    service = VerifierService(target, loop, identity, max_waiting=args.max_waiting)
    return Assembly(service=service, supervisor=supervisor)


async def _remote(supervisor: DrafterSupervisor) -> GrpcDrafter:
    await supervisor.start()
    drafter = GrpcDrafter(supervisor.address)
    supervisor.watch(drafter.status)
    # The first request should find its drafter; one that does not answer yet is no reason to stay down.
    if not await asyncio.to_thread(drafter.wait_until_up, CONNECT_TIMEOUT_S):
        logger.warning("no drafter at %s yet, decoding plainly until it answers", supervisor.address)
    return drafter


def _identity(args: AppArgs, speculative: SpeculativeConfig | None, engine: str) -> Identity:
    if speculative is None:
        return Identity(model_name=args.public_name, engine=engine)
    return Identity(
        model_name=args.public_name,
        engine=engine,
        method=speculative.method,
        num_spec_tokens=speculative.num_speculative_tokens,
    )
