"""Endpoints: chat, completions, models, health and metrics over a Backend."""

from __future__ import annotations

import logging
import time
from collections import defaultdict

from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response, StreamingResponse

from protos.field_error import FieldError
from protos.messages import Speculative, Tokens, Verdict
from services.backend import Backend, ModelCard, Verdicts
from services.config import AppArgs
from services.metrics import CONTENT_TYPE, exposition
from services.openai_api.call import Call, new_id, requests_for
from services.openai_api.decided import decided, primed
from services.openai_api.envelope import Envelope
from services.openai_api.errors import ApiError, invalid
from services.openai_api.formats import ChatFormat, CompletionFormat, Format
from services.openai_api.health import Health
from services.openai_api.params import sampling_params
from services.openai_api.piece import Piece
from services.openai_api.prompts import chat_prompt, completion_prompts
from services.openai_api.schema import ChatRequest, CompletionRequest, GenerationRequest
from services.openai_api.stream import sse
from services.openai_api.token_text import TokenText
from services.openai_api.validation import parse, read_body
from services.request_fields import short

logger = logging.getLogger(__name__)


class Endpoints:
    """One method a route."""

    def __init__(self, backend: Backend, card: ModelCard, args: AppArgs) -> None:
        self._backend = backend
        self._card = card
        self._args = args
        self._tokens = TokenText(card.tokenizer)
        self._chat = self._envelope(ChatFormat())
        self._completion = self._envelope(CompletionFormat())
        self._health = Health(backend, args.public_name)

    async def chat_completions(self, http: HttpRequest) -> Response:
        """POST /v1/chat/completions."""
        body = parse(await read_body(http, self._args.limits.max_body_bytes), ChatRequest)
        self._check_model(body.model)
        prompts = [await chat_prompt(body, self._card)]
        return await self._answer(http, body, prompts, self._chat)

    async def completions(self, http: HttpRequest) -> Response:
        """POST /v1/completions."""
        body = parse(await read_body(http, self._args.limits.max_body_bytes), CompletionRequest)
        self._check_model(body.model)
        prompts = await completion_prompts(body, self._card, self._args.limits)
        return await self._answer(http, body, prompts, self._completion)

    async def models(self, _: HttpRequest) -> Response:
        """GET /v1/models."""
        return JSONResponse({"object": "list", "data": [self._model_object()]})

    async def model(self, http: HttpRequest) -> Response:
        """GET /v1/models/{name}; names may contain slashes."""
        self._check_model(http.path_params["name"])
        return JSONResponse(self._model_object())

    async def health(self, _: HttpRequest) -> Response:
        """GET /health: decodes one token. 503 where that fails."""
        return await self._health.response()

    async def metrics(self, _: HttpRequest) -> Response:
        """GET /metrics: every engine's, in Prometheus' text format."""
        return Response(exposition(await self._backend.metrics()), media_type=CONTENT_TYPE)

    async def _answer(
        self, http: HttpRequest, body: GenerationRequest, prompts: list[Tokens], envelope: Envelope
    ) -> Response:
        call = self._call(body, prompts, tenant=http.state.tenant, prefix=envelope.format.prefix)
        logger.info("%s: %d sequences, user %r", call.call_id, len(call.requests), body.user)
        batches = await primed(decided(self._backend.generate(call.requests)))
        if body.stream:
            headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
            return StreamingResponse(sse(call, envelope, batches), media_type="text/event-stream", headers=headers)
        verdicts: defaultdict[int, list[Verdict]] = defaultdict(list)
        async for batch in batches:
            _sort(batch, call, verdicts)
        return JSONResponse(envelope.whole(call, _whole_choices(call, verdicts)))

    def _call(self, body: GenerationRequest, prompts: list[Tokens], *, tenant: str, prefix: str) -> Call:
        params = [sampling_params(body, prompt, self._card, self._args.limits) for prompt in prompts]
        self._check_holds(len(prompts), body.n)
        speculative = self._speculative(body)
        call_id = new_id(prefix)
        return Call(
            call_id=call_id,
            created=int(time.time()),
            body=body,
            prompts=tuple(prompts),
            requests=requests_for(call_id, prompts, params, tenant=tenant, speculative=speculative),
        )

    def _check_holds(self, num_prompts: int, n: int) -> None:
        """More sequences than the engine can ever hold would get a 429 that waiting does not help."""
        most = self._card.max_sequences
        if num_prompts * n > most:
            raise invalid(
                f"{num_prompts} prompts with n {n} make {num_prompts * n} sequences; this server holds at most {most} "
                "at a time, running and waiting; send them in several requests",
                "n" if n > 1 else "prompt",
            )

    def _speculative(self, body: GenerationRequest) -> Speculative:
        try:
            return body.speculative.to_message(self._args.speculative_config)
        except FieldError as error:
            raise invalid(str(error), error.field) from None

    def _check_model(self, name: str) -> None:
        if name != self._args.public_name:
            raise ApiError(
                404,
                f"model {short(name)} is not served here; {self._args.public_name!r} is",
                param="model",
                code="model_not_found",
            )

    def _model_object(self) -> dict[str, object]:
        return {
            "id": self._args.public_name,
            "object": "model",
            "created": self._card.created,
            "owned_by": "paradraft",
            "root": self._args.model,
            "max_model_len": self._card.max_model_len,
        }

    def _envelope(self, format_: Format) -> Envelope:
        speculative = self._args.speculative_config
        return Envelope(
            format=format_,
            tokens=self._tokens,
            model=self._args.public_name,
            system_fingerprint=f"paradraft-{self._card.fingerprint[:16]}",
            num_spec_tokens=speculative.num_speculative_tokens if speculative else 0,
        )


def _sort(batch: Verdicts, call: Call, verdicts: defaultdict[int, list[Verdict]]) -> None:
    for verdict in batch:
        verdicts[call.index(verdict.request_id)].append(verdict)


def _whole_choices(call: Call, verdicts: defaultdict[int, list[Verdict]]) -> list[Piece]:
    return [
        Piece(index=i, seed=request.params.seed or 0).with_verdicts(verdicts[i])
        for i, request in enumerate(call.requests)
    ]
