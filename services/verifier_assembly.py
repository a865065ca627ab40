"""assemble: a verifier from its options: model, drafter, engine, in that order. The heavy imports are here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from drafters.registry import DrafterConfig
from modeling.target import Target, load_target
from protos.draft_files import DraftFiles, DraftFilesStatus
from protos.interfaces import AsyncDrafter
from services.config import AppArgs
from services.draft_files.cache_service_supervisor import CacheServiceSupervisor
from services.draft_files.configured import at_service, configured_draft_files
from services.draft_files.opening import DirectoryOptions
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
class Drafting:
    """An engine's drafter, and what it needs: the actor that it is, the draft files that it reads in this process.

    files_status: how those are; None, or what it returns, where it reads none.
    """

    drafter: AsyncDrafter | None = None
    supervisor: DrafterSupervisor | None = None
    files: DraftFiles | None = None
    files_status: Callable[[], Awaitable[DraftFilesStatus | None]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """A running verifier. The supervisors keep actors alive as long as somebody holds them."""

    service: VerifierService
    drafting: Drafting
    cache: CacheServiceSupervisor | None

    def shutdown(self) -> None:
        """Ends the engine, and leaves no file behind."""
        self.service.shutdown()
        if self.drafting.files is not None:
            self.drafting.files.close()
        if self.drafting.supervisor is not None:
            self.drafting.supervisor.close()


async def assemble(
    args: AppArgs, placement: Placement, *, engine: str, drafter_name: str, directory: DirectoryOptions | None = None
) -> Assembly:
    """Loads and starts everything, off the event loop where it blocks. `engine` labels the metrics.

    directory: of draft files, which a cache service then holds for all verifiers of the cluster; without it the drafter
    opens what its configuration names.
    """
    spec = replace(args.target_spec(), device=placement.device, threads=placement.verifier_threads)
    target = await asyncio.to_thread(load_target, spec, progress=logger.info)
    fusion = await asyncio.to_thread(fusion_for, args, target)
    cache = None
    drafting = Drafting()
    speculative = args.speculative_config
    if speculative is not None:
        config = speculative.drafter
        if directory is not None:
            cache = CacheServiceSupervisor(directory)
            await cache.start()
            config = at_service(config, cache.address)
        if speculative.transport == "local":
            drafting = await asyncio.to_thread(_in_process, args, target, config)
        else:
            context = drafter_context(args, target, threads=placement.drafter_threads or placement.verifier_threads)
            socket = speculative.socket or "unix"
            drafting = await _remote(DrafterSupervisor(config, context, placement, name=drafter_name, socket=socket))
    loop = EngineLoop(Engine(target, args.engine_config(), drafting.drafter, fusion))
    loop.start()
    identity = _identity(args, speculative, engine)
    service = VerifierService(
        target, loop, identity, max_waiting=args.max_waiting, draft_files_status=drafting.files_status
    )
    return Assembly(service=service, drafting=drafting, cache=cache)


def _in_process(args: AppArgs, target: Target, config: DrafterConfig) -> Drafting:
    files = configured_draft_files(config)
    if files is None:
        return Drafting(drafter=local_drafter(args, target))
    try:
        drafter = local_drafter(args, target, files)
    except ValueError:
        files.close()
        raise

    async def _status() -> DraftFilesStatus:
        return files.status()

    return Drafting(drafter=drafter, files=files, files_status=_status)


async def _remote(supervisor: DrafterSupervisor) -> Drafting:
    await supervisor.start()
    drafter = GrpcDrafter(supervisor.address)
    supervisor.watch(drafter.status)
    # The first request should find its drafter; one that does not answer yet is no reason to stay down.
    if not await asyncio.to_thread(drafter.wait_until_up, CONNECT_TIMEOUT_S):
        logger.warning("no drafter at %s yet, decoding plainly until it answers", supervisor.address)
    return Drafting(drafter=drafter, supervisor=supervisor, files_status=supervisor.draft_files_status)


def _identity(args: AppArgs, speculative: SpeculativeConfig | None, engine: str) -> Identity:
    if speculative is None:
        return Identity(model_name=args.public_name, engine=engine)
    return Identity(
        model_name=args.public_name,
        engine=engine,
        method=speculative.method,
        num_spec_tokens=speculative.num_speculative_tokens,
    )
