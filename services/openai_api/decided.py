"""decided: the backend's outcomes as batches of verdicts, its failures as ApiError."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from protos.messages import Finish
from services.backend import Outcome, Refusal, Verdicts
from services.openai_api.errors import ApiError, refused


async def decided(outcomes: AsyncGenerator[Outcome]) -> AsyncGenerator[Verdicts]:
    """Yields the verdicts in order. Leaving it early, by close or cancel, aborts the requests."""
    async with aclosing(outcomes):
        async for outcome in outcomes:
            if isinstance(outcome, Refusal):
                raise refused(outcome)
            for verdict in outcome:
                _raise_if_broken(verdict.finish)
            yield outcome


async def primed(batches: AsyncGenerator[Verdicts]) -> AsyncGenerator[Verdicts]:
    """The same batches, the first of which has already arrived: a refusal becomes a status, not a broken stream."""
    first = await anext(batches)

    async def _all() -> AsyncGenerator[Verdicts]:
        async with aclosing(batches):
            yield first
            async for batch in batches:
                yield batch

    return _all()


def _raise_if_broken(finish: Finish | None) -> None:
    if finish is Finish.ERROR:
        raise ApiError(500, "the model failed on this request; the server's log says why")
    if finish is Finish.ABORT:
        raise ApiError(503, "the server stopped this request before its end; send it again")
