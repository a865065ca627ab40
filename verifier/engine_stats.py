"""EngineStats: gauges of one engine, and its counters since its start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from protos.interfaces import DrafterStatus
from protos.speculation_counts import SpeculationCounts


@dataclass(slots=True, kw_only=True)
class EngineStats:
    """Gauges first, then counters. The engine counts in one of its own and hands out copies.

    kv_cache_usage: share of all slots' tokens, 0 to 1. prefix_cache_hits: prompt tokens that were in a slot already.
    unanswered_draft_queries: those without a whole answer at the deadline. forward_seconds and draft_seconds (waiting
    for drafts) are parts of step_seconds. finished: requests by Finish.
    """

    num_requests_running: int = 0
    num_requests_waiting: int = 0
    kv_cache_usage: float = 0.0
    drafter: DrafterStatus | None = None
    prompt_tokens: int = 0
    prefix_cache_hits: int = 0
    generation_tokens: int = 0
    speculation: SpeculationCounts = field(default_factory=SpeculationCounts)
    unanswered_draft_queries: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    forward_seconds: float = 0.0
    draft_seconds: float = 0.0
    finished: Counter[str] = field(default_factory=Counter)
