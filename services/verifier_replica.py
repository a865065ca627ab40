"""VerifierReplica: what Ray Serve runs as a verifier: a VerifierService in an actor."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import Metric
from ray import serve

from protos.messages import Request
from services.backend import ModelCard, Outcome, Refusal, Speculation
from services.config import AppArgs
from services.draft_files.opening import DirectoryOptions
from services.placement import Placement
from services.serve_logging import log_through_serve

if TYPE_CHECKING:
    from services.verifier_assembly import Assembly


class VerifierReplica:
    """Its constructor returns when the model is loaded and the engine runs; a ValueError in it fails the deployment."""

    _assembly: Assembly | None = None

    # Ray Serve awaits a constructor that is async.
    async def __init__(  # type: ignore[misc]
        self, args: AppArgs, placement: Placement, directory: DirectoryOptions | None
    ) -> None:
        """directory: see `assemble`."""
        from services.verifier_assembly import assemble  # torch: whoever only deploys this class does without

        log_through_serve()
        context = serve.get_replica_context()
        name = f"{context.app_name}-drafter-{context.replica_tag}"
        rank = str(context.rank.rank)
        self._assembly = await assemble(args, placement, engine=rank, drafter_name=name, directory=directory)
        self._service = self._assembly.service

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

    async def probe(self) -> Speculation | Refusal:
        """See Backend."""
        return await self._service.probe()

    def check_health(self) -> None:
        """Ray Serve replaces the replica where this raises."""
        self._service.check_health()

    def __del__(self) -> None:
        if self._assembly is not None:
            self._assembly.shutdown()
