"""probe: health is a token really decoded, not a process that answers."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from fastapi.responses import JSONResponse

from protos.messages import Request
from protos.sampling_params import SamplingParams
from services.backend import Backend, Speculation
from services.openai_api.call import new_id
from services.openai_api.decided import decided
from services.openai_api.errors import ApiError

TIMEOUT_S = 30.0


async def probe(backend: Backend, model: str) -> JSONResponse:
    """200 once a token is decoded. A full queue is health too: it says `busy`. Anything else is 503 with the reason."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await _decode_one(backend)
            speculation = await backend.speculation()
    except TimeoutError:
        return ApiError(503, f"no token was decoded within {TIMEOUT_S:g} s").response()
    except ApiError as error:
        if error.status != 429:
            return ApiError(503, error.message).response()
        return _report(model, "busy", None)
    return _report(model, "ok", speculation)


def _report(model: str, status: str, speculation: Speculation | None) -> JSONResponse:
    return JSONResponse({"status": status, "model": model, "speculation": speculation and asdict(speculation)})


async def _decode_one(backend: Backend) -> None:
    params = SamplingParams(temperature=0, max_tokens=1, seed=0, ignore_eos=True)
    # Token 0 exists in every vocabulary, and one token of prompt costs least.
    request = Request(request_id=new_id("health"), prompt_ids=(0,), params=params)
    async for _ in decided(backend.generate([request])):
        pass
