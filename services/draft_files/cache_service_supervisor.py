"""CacheServiceSupervisor: keeps the cache service of a directory running, one for all verifiers of a cluster."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import ray
from ray.exceptions import RayError

from services.actors import RAY_NAMESPACE, RESTART_PAUSE_S
from services.draft_files.cache_service_actor import CacheService
from services.draft_files.opening import ON_RAY, DirectoryOptions, on_ray

logger = logging.getLogger(__name__)

HEAD = "node:__internal_head__"  # Ray's own name for the resource that only the head node has
PATIENCE_S = 15.0


class CacheServiceSupervisor:
    """Several may supervise one service: whoever comes first starts it, on the head node, where the directory is.

    The service ends with the process that started it, or if it dies itself it is started again by Ray; in either case
    the supervisors that are left see to it. Meanwhile drafters go without draft files. The first start must succeed.
    """

    def __init__(self, options: DirectoryOptions) -> None:
        self._options = options
        self._task: asyncio.Task[None] | None = None
        self.address = on_ray(options)

    async def start(self) -> None:
        """Returns once the service answers, and from then on keeps it so.

        ValueError where its directory cannot be had, or is held with other options, for longer than an application
        takes to end.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                actor = await self._running()
                break
            except (RayError, ValueError):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(RESTART_PAUSE_S)
        self._task = asyncio.create_task(self._keep_alive(actor))

    async def _keep_alive(self, actor: Any) -> None:
        while True:
            try:
                await actor.lifetime.remote()
            except RayError as error:
                logger.warning("the cache service died, no draft files until the next one is up: %s", _briefly(error))
            await asyncio.sleep(RESTART_PAUSE_S)
            try:
                found = await self._running()
            except (RayError, ValueError) as error:
                logger.warning("the cache service is not up yet: %s", _briefly(error))
                continue
            if found != actor:  # a handle that finds an actor is weak: only the one that made it keeps it alive
                actor = found

    async def _running(self) -> Any:
        """The actor, which answers."""
        name = self.address.removeprefix(ON_RAY)
        actor: Any = (
            ray.remote(CacheService)
            .options(
                name=name,
                namespace=RAY_NAMESPACE,
                get_if_exists=True,
                max_restarts=-1,
                num_cpus=0,
                resources={HEAD: 0.001},
                scheduling_strategy="DEFAULT",
            )
            .remote(self._options, name)
        )
        pid = await actor.ready.remote(self._options)
        logger.info("draft files of %s are served by process %d", self._options.directory, pid)
        return actor


def _briefly(error: Exception) -> str:
    return str(error).splitlines()[0]
