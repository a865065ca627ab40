"""Short forms of what an engine sends, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
) -> DraftQuery:
    """A draft after `text`, of which the drafter has seen the first `seen` tokens."""
    return DraftQuery(
        request_id=request_id,
        base_len=len(text),
        tail=tuple(text[seen:]),
        budget=budget,
        params=params,
        tenant=tenant,
    )


def with_prompt(one: DraftQuery, prompt_len: int) -> DraftQuery:
    """The same query, the first tokens of whose text are the prompt."""
    return replace(one, prompt_len=prompt_len)
