"""Short forms of what an engine sends, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from protos.messages import DraftQuery
from protos.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0, seed=1, max_tokens=256)


def query(
    text: Sequence[int],
    *,
    seen: int = 0,
    budget: int = 8,
    request_id: str = "r",
    tenant: str = "",
    params: SamplingParams = GREEDY,
    prompt_len: int = 0,
) -> DraftQuery:
    """A draft after `text`, of which the drafter has seen the first `seen` tokens."""
    return DraftQuery(
        request_id=request_id,
        base_len=len(text),
        tail=tuple(text[seen:]),
        budget=budget,
        params=params,
        tenant=tenant,
        prompt_len=prompt_len,
    )
