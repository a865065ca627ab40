"""CacheService: the cache service of one directory as a named Ray actor, and how its clients learn where it listens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import tempfile
from pathlib import Path

import ray
from ray.exceptions import RayError

from services.actors import RAY_NAMESPACE
from services.draft_files.cache_server import CacheServer
from services.draft_files.opening import DirectoryOptions, opened_pretriever

RESOLVE_TIMEOUT_S = 10.0


class CacheService:
    """The actor. It holds the draft files of `options` and serves them, until somebody ends it.

    A directory that cannot be had now, as another process still writes to it, is tried again by `ready` and `address`:
    an actor whose constructor fails would keep its name from the next.
    """

    def __init__(self, options: DirectoryOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._further: str | None = None
        self._server: CacheServer | None = None
        self._opening = asyncio.Lock()
        self._held = contextlib.ExitStack()  # as long as the process lives: what was acknowledged is on the disk
        with contextlib.suppress(ValueError):
            self._server = self._serve()

    async def ready(self, options: DirectoryOptions) -> int:
        """Returns, with the process id, once the draft files are served. ValueError where they cannot be, or are held
        with other options.
        """
        if options != self._options:
            raise ValueError(
                f"draft_files {options.directory!r} are served already with {_shown(self._options)}, not "
                f"{_shown(options)}: give every application of this cluster the same values, or another directory"
            )
        await self._opened()
        return os.getpid()

    async def address(self, node_id: str) -> str:
        """For a client on that node: a socket that only this user can open, or from another node a port of this."""
        server = await self._opened()
        if node_id == ray.get_runtime_context().get_node_id():
            return server.address
        if self._further is None:
            host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
            self._further = server.listen(f"{host}:0")
        return self._further

    async def lifetime(self) -> None:
        """Never returns: whoever waits for it learns at once of the actor's death."""
        await asyncio.Event().wait()

    async def _opened(self) -> CacheServer:
        async with self._opening:
            if self._server is None:
                self._server = await asyncio.to_thread(self._serve)
            return self._server

    def _serve(self) -> CacheServer:
        with contextlib.ExitStack() as opened:
            pretriever = opened.enter_context(opened_pretriever(self._options))
            server = CacheServer(pretriever, f"unix:{_private_directory(self._name) / 'cache.sock'}")
            server.start()
            self._held = opened.pop_all()
            return server


def service_address(name: str) -> str:
    """Where the actor of that name listens now, for this process. Waits for it; ConnectionError where none answers."""
    if not ray.is_initialized():
        raise ConnectionError(f"address 'ray:{name}' can only be found from a process on Ray; give host:port")
    try:
        actor = ray.get_actor(name, namespace=RAY_NAMESPACE)
        node = ray.get_runtime_context().get_node_id()
        return str(ray.get(actor.address.remote(node), timeout=RESOLVE_TIMEOUT_S))
    except (ValueError, RayError) as error:  # ValueError: nobody has the name, or what the actor says of its directory
        raise ConnectionError(f"no cache service answers at 'ray:{name}': {str(error).splitlines()[0]}") from error


def _private_directory(name: str) -> Path:
    """The same at each start, so that an actor that is killed leaves nothing that its successor does not use."""
    directory = Path(tempfile.gettempdir()) / f"paradraft-{os.getuid()}-{name}"
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ValueError(f"{str(directory)!r} must be a directory that only this user can enter; remove it")
    return directory


def _shown(options: DirectoryOptions) -> str:
    return (
        f"budget_bytes {options.budget_bytes}, tenant_budget_bytes {options.tenant_budget_bytes}, "
        f"min_similarity {options.min_similarity}"
    )
