"""SpeculationCounts: what drafts brought, for one request or for all of an engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from protos.draft import Draft
from protos.messages import RequestStats


@dataclass(slots=True, kw_only=True)
class SpeculationCounts:
    """Definitions as in RequestStats: a draft counts once at least one of its tokens was verified."""

    num_drafts: int = 0
    drafted: int = 0
    verified: int = 0
    accepted_per_pos: list[int] = field(default_factory=list)
    steps: int = 0
    cached_prompt_tokens: int = 0
    queue_seconds: float = 0.0
    sources: Counter[str] = field(default_factory=Counter)

    def add(self, *, proposed: int, verified: Draft, path: tuple[int, ...]) -> None:
        """One verification: `proposed` tokens were offered, the nodes of `verified` processed, `path` emitted."""
        self.steps += 1
        self.drafted += proposed
        if not verified.tokens:
            return
        self.num_drafts += 1
        self.verified += len(verified)
        self.accepted_per_pos.extend([0] * (max(verified.depths()) - len(self.accepted_per_pos)))
        for position, node in enumerate(path):
            self.accepted_per_pos[position] += 1
            self.sources[verified.sources[node]] += 1

    def snapshot(self) -> RequestStats:
        """As a message."""
        return RequestStats(
            num_drafts=self.num_drafts,
            drafted=self.drafted,
            verified=self.verified,
            accepted_per_pos=tuple(self.accepted_per_pos),
            steps=self.steps,
            cached_prompt_tokens=self.cached_prompt_tokens,
            queue_seconds=self.queue_seconds,
            sources=dict(self.sources),
        )
