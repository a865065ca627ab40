"""Health: a token really decoded, not a process that answers."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from fastapi.responses import JSONResponse

from protos.messages import Request
from protos.sampling_params import SamplingParams
from services.backend import PROBE_PREFIX, Backend, Refusal, Speculation
from services.openai_api.call import new_id
from services.openai_api.decided import decided
from services.openai_api.errors import ApiError, refused

TIMEOUT_S = 30.0


class Health:
    """However many ask at a time, one token is decoded for all of them."""

    def __init__(self, backend: Backend, model: str) -> None:
        self._backend = backend
        self._model = model
        self._probe: asyncio.Task[dict[str, Any]] | None = None

    async def response(self) -> JSONResponse:
        """200 once a token is decoded; a full queue is health too, it says `busy`. Else 503 with the reason."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._report())
        try:
            return JSONResponse(await asyncio.shield(self._probe))  # who leaves must not cancel it for the others
        except ApiError as error:
            return ApiError(503, error.message).response()

    async def _report(self) -> dict[str, Any]:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._decode_one()
                speculation = await self._backend.speculation()
        except TimeoutError:
            raise ApiError(503, f"no token was decoded within {TIMEOUT_S:g} s") from None
        except ApiError as error:
            if error.status != 429:
                raise
            return self._body("busy", None)
        if isinstance(speculation, Refusal):
            raise refused(speculation)
        return self._body("ok", speculation)

    def _body(self, status: str, speculation: Speculation | None) -> dict[str, Any]:
        return {"status": status, "model": self._model, "speculation": speculation and asdict(speculation)}

    async def _decode_one(self) -> None:
        params = SamplingParams(temperature=0, max_tokens=1, seed=0, ignore_eos=True)
        # Token 0 exists in every vocabulary, and one token of prompt costs least.
        request = Request(request_id=new_id(PROBE_PREFIX), prompt_ids=(0,), params=params)
        async for _ in decided(self._backend.generate([request])):
            pass
