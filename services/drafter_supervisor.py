"""DrafterSupervisor: keeps one drafter actor alive at one address, beside the verifier that owns it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

import ray
from ray.exceptions import RayError
from ray.util.placement_group import get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from drafters.context import DrafterContext
from drafters.registry import DrafterConfig
from protos.draft_files import DraftFilesStatus
from protos.interfaces import DrafterStatus
from services.actors import RAY_NAMESPACE, RESTART_PAUSE_S
from services.draft_files.configured import cached_part
from services.drafter_service import DrafterService
from services.free_port import free_port
from services.placement import Placement

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
MAX_STALLS = 3
ANSWER_S = 2.0


class DrafterSupervisor:
    """Call it from an actor with a placement group: the drafter joins that group, and dies with the caller.

    The first start must succeed; later deaths are mended. A dead drafter costs nothing but its drafts: the transport
    counts it, the engine decodes plainly, and the stream opens again when the next actor listens. A drafter that hangs
    is killed, which is a death like any other.
    """

    def __init__(
        self,
        config: DrafterConfig,
        context: DrafterContext,
        placement: Placement,
        *,
        name: str,
        socket: Literal["unix", "tcp"] = "unix",
    ) -> None:
        self._config = config
        self._context = context
        self._placement = placement
        self._name = name
        # A socket in a directory that only this user can enter: drafts quote the users' text.
        self._directory = tempfile.TemporaryDirectory(prefix="paradraft-")
        unix = f"unix:{Path(self._directory.name) / 'draft.sock'}"
        self.address = unix if socket == "unix" else f"127.0.0.1:{free_port('127.0.0.1')}"
        self._generations = itertools.count()
        self._actor: Any = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Starts the first actor, and from then on replaces it whenever it dies. Raises where it cannot start."""
        self._actor = self._spawn()
        pid = await self._actor.ready.remote()
        logger.info("drafter %s runs in process %d", self._name, pid)
        self._tasks.append(asyncio.create_task(self._keep_alive()))

    def watch(self, status: Callable[[], DrafterStatus]) -> None:
        """Kills the drafter from now on whenever it hangs by `status` of the transport to it."""
        self._tasks.append(asyncio.create_task(self._end_when_hung(status)))

    async def draft_files_status(self) -> DraftFilesStatus | None:
        """See DrafterService; None as well where it does not answer."""
        if cached_part(self._config) is None:
            return None
        try:
            return cast(
                "DraftFilesStatus | None", await asyncio.wait_for(self._actor.draft_files_status.remote(), ANSWER_S)
            )
        except (RayError, TimeoutError):
            return None

    def close(self) -> None:
        """Removes the socket; the actor ends with this process, its owner."""
        self._directory.cleanup()

    async def _keep_alive(self) -> None:
        while True:
            try:
                await self._actor.lifetime.remote()
            except RayError as error:
                logger.warning("drafter %s died, decoding plainly until the next one is up: %s", self._name, error)
            await asyncio.sleep(RESTART_PAUSE_S)
            self._actor = self._spawn()

    async def _end_when_hung(self, status: Callable[[], DrafterStatus]) -> None:
        """A drafter hangs once the transport has given it up MAX_STALLS times with no frame in between."""
        before = status().counters
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            now = status().counters
            if now["frames"] > before["frames"]:
                before = now
            elif now["stalls"] - before["stalls"] >= MAX_STALLS:
                logger.warning("drafter %s hangs and is killed", self._name)
                ray.kill(self._actor)
                before = now

    def _spawn(self) -> Any:
        group = get_current_placement_group()
        assert group is not None, "a supervisor runs in an actor that has a placement group"
        strategy = PlacementGroupSchedulingStrategy(group, self._placement.drafter_bundle)
        # Ray remembers the name of a dead actor as long as its handles live: each actor has a name of its own.
        name = f"{self._name}-{next(self._generations)}"
        actor = ray.remote(DrafterService).options(
            name=name, namespace=RAY_NAMESPACE, scheduling_strategy=strategy, **self._placement.drafter_options
        )
        return actor.remote(self._config, self._context, self.address)
