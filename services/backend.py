"""Backend: what the HTTP front needs of the engines behind it, and the records that cross between the two."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from prometheus_client.metrics_core import Metric

from protos.messages import Request, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why requests were not served: HTTP status and a sentence for the client; `retry_after_s` when waiting helps."""

    status: int
    message: str
    retry_after_s: int | None = None


Verdicts = tuple[Verdict, ...]
Outcome = Verdicts | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What the front knows of the model. The tokenizer travels with it, so that the front needs no files.

    max_sequences: those an engine can hold, running and waiting together.
    """

    tokenizer: Any
    vocab_size: int
    max_model_len: int
    max_sequences: int
    fingerprint: str
    created: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """State of speculation for /health: `method` None where the server has none; `reason` says why it is down."""

    method: str | None = None
    up: bool = False
    reason: str = ""


class Backend(Protocol):
    """The engines behind the front.

    - `generate` takes the sequences of one HTTP request. It yields what was decided since the last item, until every
      sequence has its finish, or one Refusal and nothing after it. Closing or cancelling it aborts them all.
    - `probe` returns once a token has been decoded since the call, with the state of speculation, or says why none can.
    - `metrics` gives the families of every engine, labelled by engine.
    """

    async def card(self) -> ModelCard: ...

    def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Outcome]: ...

    async def metrics(self) -> list[list[Metric]]: ...

    async def probe(self) -> Speculation | Refusal: ...
