"""VerifierReplica: what Ray Serve runs as a verifier: loads the model, starts the drafter and the engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from prometheus_client.metrics_core import Metric
from ray import serve

from drafters.context import DrafterContext
from drafters.registry import build_drafter
from modeling.target import Target, load_target
from protos.interfaces import AsyncDrafter
from protos.messages import Request
from services.backend import ModelCard, Outcome, Speculation
from services.config import AppArgs
from services.drafter_supervisor import DrafterSupervisor
from services.placement import Placement
from services.transports.grpc_client import GrpcDrafter
from services.transports.local import LocalDrafter
from services.verifier_service import Identity, VerifierService
from verifier.engine import Engine
from verifier.engine_loop import EngineLoop

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0


class VerifierReplica:
    """A VerifierService in an actor. Loading happens off the event loop: Serve may ask for it at any time."""

    async def __init__(self, args: AppArgs, placement: Placement) -> None:
        context = serve.get_replica_context()
        spec = replace(args.target_spec(), device=placement.device, threads=placement.verifier_threads)
        target = await asyncio.to_thread(load_target, spec, progress=logger.info)
        drafter = await self._drafter(args, placement, target)
        loop = EngineLoop(Engine(target, args.engine_config(), drafter))
        loop.start()
        speculative = args.speculative_config
        identity = Identity(
            model_name=args.public_name,
            engine=str(context.rank.rank),
            method=speculative.method if speculative else None,
            num_spec_tokens=speculative.num_speculative_tokens if speculative else 0,
        )
        self._service = VerifierService(target, loop, identity)

    async def _drafter(self, args: AppArgs, placement: Placement, target: Target) -> AsyncDrafter | None:
        if args.speculative_config is None:
            return None
        config = args.speculative_config.drafter
        context = DrafterContext(
            target=args.model,
            vocab_size=target.vocab_size,
            max_num_seqs=args.max_num_seqs,
            max_model_len=target.max_model_len,
            device=placement.device,
            dtype=args.dtype,
            threads=placement.drafter_threads or placement.verifier_threads,
        )
        if args.speculative_config.transport == "local":
            return LocalDrafter(await asyncio.to_thread(build_drafter, config, context))
        name = f"drafter-{serve.get_replica_context().replica_tag}"
        self._supervisor = DrafterSupervisor(config, context, placement, name=name)
        await self._supervisor.start()
        drafter = GrpcDrafter(self._supervisor.address)
        await asyncio.to_thread(drafter.wait_until_up, CONNECT_TIMEOUT_S)
        return drafter

    async def card(self) -> ModelCard:
        """See Backend."""
        return await self._service.card()

    async def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Outcome]:
        """See Backend."""
        async for outcome in self._service.generate(requests):
            yield outcome

    async def metrics(self) -> list[list[Metric]]:
        """See Backend."""
        return await self._service.metrics()

    async def speculation(self) -> Speculation:
        """See Backend."""
        return await self._service.speculation()

    def check_health(self) -> None:
        """Ray Serve replaces the replica where this raises."""
        self._service.check_health()

    def __del__(self) -> None:
        self._service.shutdown()
