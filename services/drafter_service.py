"""DrafterService: a drafter in an actor of its own, behind a gRPC address."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from drafters.context import DrafterContext
from drafters.registry import DrafterConfig, build_drafter
from protos.draft_files import DraftFilesStatus
from services.draft_files.configured import configured_draft_files
from services.transports.grpc_server import DraftServer


class DrafterService:
    """The actor: builds the drafter, serves it at `address`, and lives until somebody ends it."""

    def __init__(self, config: DrafterConfig, context: DrafterContext, address: str) -> None:
        self._draft_files = configured_draft_files(config)
        drafter = build_drafter(config, replace(context, draft_files=self._draft_files))
        self._server = DraftServer(drafter, address)
        self._server.start()

    async def ready(self) -> int:
        """Returns, with the process id, once drafts are served."""
        return os.getpid()

    async def draft_files_status(self) -> DraftFilesStatus | None:
        """How those are that the drafter reads; None where it reads none."""
        return None if self._draft_files is None else self._draft_files.status()

    async def lifetime(self) -> None:
        """Never returns: whoever waits for it learns at once of the actor's death."""
        await asyncio.Event().wait()
