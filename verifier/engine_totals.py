"""EngineTotals: what an engine counts, since its start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from verifier.engine_stats import EngineStats
from verifier.speculation_counts import SpeculationCounts


@dataclass(slots=True, kw_only=True)
class EngineTotals:
    """Written by the engine's thread only."""

    prompt_tokens: int = 0
    prefix_cache_hits: int = 0
    generation_tokens: int = 0
    unanswered_draft_queries: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    forward_seconds: float = 0.0
    draft_seconds: float = 0.0
    counts: SpeculationCounts = field(default_factory=SpeculationCounts)
    finished: Counter[str] = field(default_factory=Counter)

    def snapshot(self) -> EngineStats:
        """The counters; the gauges are the engine's to fill in."""
        counts = self.counts.snapshot()
        return EngineStats(
            prompt_tokens=self.prompt_tokens,
            generation_tokens=self.generation_tokens,
            prefix_cache_queries=self.prompt_tokens,
            prefix_cache_hits=self.prefix_cache_hits,
            num_drafts=counts.num_drafts,
            num_draft_tokens=counts.drafted,
            num_verified_tokens=counts.verified,
            num_accepted_tokens=counts.accepted,
            accepted_per_pos=counts.accepted_per_pos,
            unanswered_draft_queries=self.unanswered_draft_queries,
            steps=self.steps,
            step_seconds=self.step_seconds,
            forward_seconds=self.forward_seconds,
            draft_seconds=self.draft_seconds,
            finished=dict(self.finished),
        )
