"""DrafterSupervisor: keeps one drafter actor alive at one address, beside the verifier that owns it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import tempfile
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError
from ray.util.placement_group import get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from drafters.context import DrafterContext
from drafters.registry import DrafterConfig
from services.drafter_service import DrafterService
from services.placement import Placement

logger = logging.getLogger(__name__)

NAMESPACE = "paradraft"
RESTART_PAUSE_S = 1.0


class DrafterSupervisor:
    """Call it from an actor with a placement group: the drafter joins that group, and dies with the caller.

    The first start must succeed; later deaths are mended. A dead drafter costs nothing but its drafts: the transport
    counts it, the engine decodes plainly, and the stream opens again when the next actor listens.
    """

    def __init__(self, config: DrafterConfig, context: DrafterContext, placement: Placement, *, name: str) -> None:
        self._config = config
        self._context = context
        self._placement = placement
        self._name = name
        # A socket in a directory that only this user can enter: drafts quote the users' text.
        self._directory = tempfile.TemporaryDirectory(prefix="paradraft-")
        self.address = f"unix:{Path(self._directory.name) / 'draft.sock'}"
        self._generations = itertools.count()
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the first actor, and from then on replaces it whenever it dies. Raises where it cannot start."""
        actor = self._spawn()
        pid = await actor.ready.remote()
        logger.info("drafter %s runs in process %d", self._name, pid)
        self._watch = asyncio.create_task(self._keep_alive(actor))

    def close(self) -> None:
        """Removes the socket; the actor ends with this process, its owner."""
        self._directory.cleanup()

    async def _keep_alive(self, actor: Any) -> None:
        while True:
            try:
                await actor.lifetime.remote()
            except RayActorError as error:
                logger.warning("drafter %s died, decoding plainly until the next one is up: %s", self._name, error)
            await asyncio.sleep(RESTART_PAUSE_S)
            actor = self._spawn()

    def _spawn(self) -> Any:
        group = get_current_placement_group()
        assert group is not None, "a supervisor runs in an actor that has a placement group"
        strategy = PlacementGroupSchedulingStrategy(group, self._placement.drafter_bundle)
        # Ray remembers the name of a dead actor as long as its handles live: each actor has a name of its own.
        name = f"{self._name}-{next(self._generations)}"
        actor = ray.remote(DrafterService).options(
            name=name, namespace=NAMESPACE, scheduling_strategy=strategy, **self._placement.drafter_options
        )
        return actor.remote(self._config, self._context, self.address)
