"""counts_of: what one verification adds to the speculation counts."""

from __future__ import annotations

from collections import Counter

from protos.draft import Draft
from protos.messages import Tokens
from protos.speculation_counts import SpeculationCounts


def counts_of(*, proposed: int, verified: Draft, path: Tokens) -> SpeculationCounts:
    """`proposed` tokens were offered, the nodes of `verified` processed, and those on `path` emitted."""
    if not verified.tokens:
        return SpeculationCounts(drafted=proposed)
    refused = max(verified.depths()) - len(path)
    return SpeculationCounts(
        num_drafts=1,
        drafted=proposed,
        verified=len(verified),
        accepted_per_pos=(1,) * len(path) + (0,) * refused,
        sources=Counter(verified.sources[node] for node in path),
    )
