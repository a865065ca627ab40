"""Health: a token really decoded, not a process that answers."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from fastapi.responses import JSONResponse

from services.backend import Backend, Refusal
from services.openai_api.errors import ApiError

TIMEOUT_S = 30.0


class Health:
    """However many ask at a time, the engine is probed once for all of them."""

    def __init__(self, backend: Backend, model: str) -> None:
        self._backend = backend
        self._model = model
        self._probe: asyncio.Task[dict[str, Any]] | None = None

    async def response(self) -> JSONResponse:
        """200 once a token is decoded, whoever's; else 503 with the reason."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._report())
        try:
            return JSONResponse(await asyncio.shield(self._probe))  # who leaves must not cancel it for the others
        except ApiError as error:
            return error.response()

    async def _report(self) -> dict[str, Any]:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await self._backend.probe()
        except TimeoutError:
            raise ApiError(503, f"no token was decoded within {TIMEOUT_S:g} s") from None
        if isinstance(answer, Refusal):
            raise ApiError(503, answer.message)
        return {"status": "ok", "model": self._model, "speculation": asdict(answer)}
