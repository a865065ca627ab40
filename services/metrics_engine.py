"""engine_families: an engine's snapshot under the names, types and labels that vLLM gives the same quantities.

Acceptance length is 1 + spec_decode_num_accepted_tokens / spec_decode_num_drafts, and accepted_tokens is the sum of
accepted_tokens_per_pos. `paradraft:` has what vLLM does not know, such as draft tokens really verified.
"""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from protos.interfaces import DrafterStatus
from protos.messages import Finish
from protos.speculation_counts import SpeculationCounts
from verifier.engine_stats import EngineStats

LABELS = ("model_name", "engine")

_GAUGES = (
    ("vllm:num_requests_running", "Requests that have a KV slot.", "num_requests_running"),
    ("vllm:num_requests_waiting", "Requests in the queue.", "num_requests_waiting"),
    ("vllm:kv_cache_usage_perc", "Share of the KV cache in use, 0 to 1.", "kv_cache_usage"),
)
_COUNTERS = (
    ("vllm:prompt_tokens", "Prompt tokens of admitted requests.", "prompt_tokens"),
    ("vllm:generation_tokens", "Tokens generated.", "generation_tokens"),
    ("vllm:prefix_cache_queries", "Prompt tokens looked up in the KV cache.", "prompt_tokens"),
    ("vllm:prefix_cache_hits", "Prompt tokens found in the KV cache.", "prefix_cache_hits"),
    ("paradraft:engine_steps", "Steps of the engine.", "steps"),
    ("paradraft:engine_step_seconds", "Time in steps.", "step_seconds"),
    ("paradraft:engine_forward_seconds", "Of that, time in the model's forward.", "forward_seconds"),
)
_SPECULATION = (
    ("vllm:spec_decode_num_drafts", "Drafts of which at least one token was verified.", "num_drafts"),
    ("vllm:spec_decode_num_draft_tokens", "Tokens proposed.", "drafted"),
    ("vllm:spec_decode_num_accepted_tokens", "Draft tokens that became text.", "accepted"),
    ("paradraft:spec_decode_num_verified_tokens", "Draft tokens the target processed.", "verified"),
)
_DRAFTING = (
    (
        "paradraft:draft_queries_unanswered",
        "Draft queries that had no whole answer by the deadline.",
        "unanswered_draft_queries",
    ),
    ("paradraft:engine_draft_seconds", "Time in steps spent waiting for drafts.", "draft_seconds"),
)


def engine_families(stats: EngineStats, *, model_name: str, engine: str, num_spec_tokens: int) -> list[Metric]:
    """All families of one engine. Those of speculation exist where the engine speculates (num_spec_tokens > 0)."""
    labels = (model_name, engine)
    families: list[Metric] = [_gauge(name, text, labels, getattr(stats, field)) for name, text, field in _GAUGES]
    families += [_counter(name, text, labels, getattr(stats, field)) for name, text, field in _COUNTERS]
    families.append(_finished(stats, labels))
    if num_spec_tokens:
        drafts = stats.speculation
        families += [_counter(name, text, labels, getattr(drafts, field)) for name, text, field in _SPECULATION]
        families += [_counter(name, text, labels, getattr(stats, field)) for name, text, field in _DRAFTING]
        families.append(_accepted_per_position(drafts, labels, num_spec_tokens))
    if stats.drafter is not None:
        families += _drafter(stats.drafter, labels)
    return families


def _gauge(name: str, text: str, labels: tuple[str, ...], value: float) -> Metric:
    family = GaugeMetricFamily(name, text, labels=LABELS)
    family.add_metric(labels, value)
    return family


def _counter(name: str, text: str, labels: tuple[str, ...], value: float) -> Metric:
    family = CounterMetricFamily(name, text, labels=LABELS)
    family.add_metric(labels, value)
    return family


def _finished(stats: EngineStats, labels: tuple[str, ...]) -> Metric:
    family = CounterMetricFamily(
        "vllm:request_success", "Finished requests by reason.", labels=(*LABELS, "finished_reason")
    )
    for reason in Finish:
        family.add_metric((*labels, reason.value), stats.finished[reason.value])
    return family


def _accepted_per_position(drafts: SpeculationCounts, labels: tuple[str, ...], width: int) -> Metric:
    family = CounterMetricFamily(
        "vllm:spec_decode_num_accepted_tokens_per_pos",
        "Drafts accepted at each position.",
        labels=(*LABELS, "position"),
    )
    counts = drafts.accepted_per_pos + (0,) * (width - len(drafts.accepted_per_pos))
    for position, count in enumerate(counts):
        family.add_metric((*labels, str(position)), count)
    return family


def _drafter(status: DrafterStatus, labels: tuple[str, ...]) -> list[Metric]:
    events = CounterMetricFamily(
        "paradraft:drafter_events", "What happened to the drafter's transport.", labels=(*LABELS, "event")
    )
    for event, count in status.counters.items():
        events.add_metric((*labels, event), count)
    return [_gauge("paradraft:drafter_up", "1 while drafts arrive, else 0.", labels, float(status.up)), events]
