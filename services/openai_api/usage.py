"""Usage and speculation metrics of one call, counted from what the engine reported, never from text."""

from __future__ import annotations

from collections import Counter
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
    stats = [piece.stats for piece in pieces if piece.stats]
    drafts = sum(one.num_drafts for one in stats)
    drafted = sum(one.drafted for one in stats)
    per_position = _sum_positions(stats)
    accepted = sum(per_position)
    reached = [drafts, *per_position, 0]
    return {
        "mean_acceptance_length": 1 + accepted / drafts if drafts else None,
        "draft_acceptance_rate": accepted / drafted if drafted else None,
        "acceptance_histogram": [more - fewer for more, fewer in pairwise(reached)],
        "num_spec_steps": drafts,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "num_spec_tokens": num_spec_tokens,
        "num_verified_tokens": sum(one.verified for one in stats),
        "num_steps": sum(one.steps for one in stats),
        "sources": dict(sum((Counter(one.sources) for one in stats), Counter())),
    }


def _sum_positions(stats: Sequence[RequestStats]) -> list[int]:
    width = max((len(one.accepted_per_pos) for one in stats), default=0)
    return [sum(one.accepted_per_pos[i] for one in stats if i < len(one.accepted_per_pos)) for i in range(width)]
