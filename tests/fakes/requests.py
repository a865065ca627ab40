"""Short forms of requests, for tests."""

from __future__ import annotations

from protos.messages import Request, Speculative
from protos.sampling_params import SamplingParams

PROMPT = b"the quick brown fox"


def request(name: str = "r", *, prompt: bytes = PROMPT, tenant: str = "", **options: object) -> Request:
    """Greedy, 24 tokens, the end token ignored, unless said otherwise. Byte tokens."""
    speculative = options.pop("speculative", Speculative())
    params = {"temperature": 0.0, "max_tokens": 24, "ignore_eos": True, "seed": 1} | options
    return Request(
        request_id=name,
        prompt_ids=tuple(prompt),
        params=SamplingParams(**params),  # type: ignore[arg-type]
        tenant=tenant,
        speculative=speculative,  # type: ignore[arg-type]
    )
