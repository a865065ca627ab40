"""Call: one HTTP request as the sequences it asks for, and how its answer is to be shown."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from protos.messages import Request, Speculative, Tokens
from protos.sampling_params import SamplingParams
from protos.seeds import expand
from services.openai_api.schema import GenerationRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`requests[i]` makes choice i; the n choices of one prompt stand together. `prompts` are the distinct prompts."""

    call_id: str
    created: int
    body: GenerationRequest
    prompts: tuple[Tokens, ...]
    requests: tuple[Request, ...]

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens to bill: each prompt once, however many answers it gets."""
        return sum(len(prompt) for prompt in self.prompts)

    def index(self, request_id: str) -> int:
        """The choice a request makes."""
        return int(request_id.rpartition("-")[2])


def new_id(prefix: str) -> str:
    """An id that no other request has, on any replica."""
    return f"{prefix}-{uuid.uuid4().hex}"


def requests_for(
    call_id: str,
    prompts: Sequence[Tokens],
    params: Sequence[SamplingParams],
    *,
    tenant: str,
    speculative: Speculative,
) -> tuple[Request, ...]:
    """The sequences for some prompts, `params[i]` for prompt i."""
    children = [(ids, child) for ids, given in zip(prompts, params, strict=True) for child in expand(given)]
    return tuple(
        Request(
            request_id=f"{call_id}-{i}",
            prompt_ids=ids,
            params=child,
            tenant=tenant,
            speculative=speculative,
        )
        for i, (ids, child) in enumerate(children)
    )
