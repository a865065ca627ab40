"""EngineStats: a snapshot of one engine: gauges of now, counters since its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from protos.interfaces import DrafterStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """Gauges first, then counters. Names follow the Prometheus metrics they feed (services/metrics)."""

    num_requests_running: int = 0
    num_requests_waiting: int = 0
    kv_cache_usage: float = 0.0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_verified_tokens: int = 0
    num_accepted_tokens: int = 0
    accepted_per_pos: tuple[int, ...] = ()
    unanswered_draft_queries: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    forward_seconds: float = 0.0
    draft_seconds: float = 0.0
    finished: dict[str, int] = field(default_factory=dict)
    drafter: DrafterStatus | None = None
