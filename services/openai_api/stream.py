"""sse: an answer as server-sent events, each part sent as soon as it is decided."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from protos.messages import Verdict
from services.backend import Verdicts
from services.openai_api.call import Call
from services.openai_api.envelope import Envelope
from services.openai_api.errors import ApiError, unexpected
from services.openai_api.piece import Piece
from services.openai_api.schema import StreamOptions
from services.openai_api.usage import cached_tokens, usage

DONE = "data: [DONE]\n\n"


async def sse(call: Call, envelope: Envelope, batches: AsyncGenerator[Verdicts]) -> AsyncIterator[str]:
    """The events of a call. A failure on the way is an event with OpenAI's error object, and the last one."""
    stream = _Stream(call, envelope)
    try:
        async with aclosing(batches):
            async for batch in batches:
                events = "".join(stream.events(verdict) for verdict in batch)
                if events:
                    yield events
        yield stream.closing() + DONE
    except ApiError as error:
        yield event(error.body())
    except Exception as error:  # noqa: BLE001  headers are out: the client can only learn of it by an event
        yield event(unexpected(error, where=call.call_id).body())


def event(data: dict[str, Any]) -> str:
    """One server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"


class _Stream:
    """What is known of each choice while it grows: the piece not yet sent, and how many tokens were."""

    def __init__(self, call: Call, envelope: Envelope) -> None:
        self._call = call
        self._envelope = envelope
        self._options = call.body.stream_options or StreamOptions()
        self._pending = [Piece(index=i, seed=request.params.seed or 0) for i, request in enumerate(call.requests)]
        self._completion_tokens = 0

    def events(self, verdict: Verdict) -> str:
        """The chunk that a verdict makes. Tokens whose text is held back wait for the chunk that shows it."""
        index = self._call.index(verdict.request_id)
        piece = self._pending[index].with_verdicts([verdict])
        self._completion_tokens += len(verdict.tokens)
        if not piece.text and piece.finish is None:
            self._pending[index] = piece
            return ""
        self._pending[index] = piece.rest()
        chunk = self._envelope.chunk(self._call, piece)
        if self._options.continuous_usage_stats:
            chunk["usage"] = self._usage()
        elif self._options.include_usage:
            chunk["usage"] = None
        return event(chunk)

    def closing(self) -> str:
        """The chunk after the last choice: usage, if asked for, and metrics, if asked for; else nothing."""
        extra = self._envelope.metrics(self._call, self._pending)
        if self._options.include_usage:
            extra["usage"] = self._usage()
        return event(self._envelope.closing(self._call) | extra) if extra else ""

    def _usage(self) -> dict[str, Any]:
        return usage(self._call, self._completion_tokens, cached_tokens(self._call, self._pending))
