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
    return sum(piece.stats.cached_prompt_tokens for piece in firsts)


def speculative_metrics(pieces: Sequence[Piece], num_spec_tokens: int) -> dict[str, Any]:
    """`metrics.speculative_decoding`, summed over the choices. The first seven are vLLM's and mean the same there.

    acceptance_histogram[j]: verifications of a draft that accepted exactly j of its tokens. Rates are null without
    drafts. num_verified_tokens: draft tokens the target processed; sources: accepted tokens by who guessed them.
    """
    stats = sum((piece.stats for piece in pieces), RequestStats())
    drafts = stats.speculation
    reached = [drafts.num_drafts, *drafts.accepted_per_pos, 0]
    return {
        "mean_acceptance_length": drafts.accepted_length if drafts.num_drafts else None,
        "draft_acceptance_rate": drafts.accepted / drafts.drafted if drafts.drafted else None,
        "acceptance_histogram": [more - fewer for more, fewer in pairwise(reached)],
        "num_spec_steps": drafts.num_drafts,
        "num_accepted_draft_tokens": drafts.accepted,
        "num_draft_tokens": drafts.drafted,
        "num_spec_tokens": num_spec_tokens,
        "num_verified_tokens": drafts.verified,
        "num_steps": stats.steps,
        "sources": dict(drafts.sources),
    }
