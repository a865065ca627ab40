"""Usage and speculation metrics of one call, counted from what the engine reported, never from text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from protos.messages import RequestStats
from services.openai_api.call import Call
from services.openai_api.piece import Piece


def usage(call: Call, completion_tokens: int, cached_tokens: int) -> dict[str, Any]:
    """OpenAI's usage object."""
    return {
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": call.prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def cached_tokens(call: Call, pieces: Sequence[Piece]) -> int:
    """Prompt tokens found in the KV cache: those of the first answer to each prompt, as each prompt is billed once."""
    firsts = pieces[:: call.body.n]
    return sum(piece.stats.cached_prompt_tokens for piece in firsts if piece.stats)


def speculative_metrics(pieces: Sequence[Piece], num_spec_tokens: int) -> dict[str, Any]:
    """`metrics.speculative_decoding`, summed over the choices. The first seven are vLLM's and mean the same there.

    acceptance_histogram[j]: verifications of a draft that accepted exactly j of its tokens. Rates are null without
    drafts. num_verified_tokens: draft tokens the target processed; sources: accepted tokens by who guessed them.
    """
    total = sum((piece.stats for piece in pieces if piece.stats), RequestStats())
    reached = [total.num_drafts, *total.accepted_per_pos, 0]
    return {
        "mean_acceptance_length": total.accepted_length,
        "draft_acceptance_rate": total.accepted / total.drafted if total.drafted else None,
        "acceptance_histogram": [more - fewer for more, fewer in pairwise(reached)],
        "num_spec_steps": total.num_drafts,
        "num_accepted_draft_tokens": total.accepted,
        "num_draft_tokens": total.drafted,
        "num_spec_tokens": num_spec_tokens,
        "num_verified_tokens": total.verified,
        "num_steps": total.steps,
        "sources": dict(total.sources),
    }
