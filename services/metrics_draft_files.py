"""Metric families of draft files: what one engine's drafter sees of them, and what the service behind them holds.

None is labelled by tenant, nor tells them apart: one could count what another asks.
"""

from __future__ import annotations

import logging

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from protos.draft_files import DraftFilesStatus
from services.draft_files.opening import located
from services.draft_files.stats import DraftFilesStats, read_stats

logger = logging.getLogger(__name__)

SCRAPE_TIMEOUT_S = 2.0

_GAUGES = (
    ("paradraft:draft_files_records", "Prefixes stored, of the namespaces in use.", "records"),
    ("paradraft:draft_files_bytes", "Bytes of their files.", "bytes"),
    ("paradraft:draft_files_index_bytes", "Bytes of their indexes in memory.", "index_bytes"),
)
_COUNTERS = (
    ("paradraft:draft_files_lookups", "Prefixes looked up.", "lookups"),
    ("paradraft:draft_files_hits", "Look-ups that found something.", "hits"),
    ("paradraft:draft_files_additions", "Continuations taken in.", "added"),
    ("paradraft:draft_files_short_continuations", "Continuations of too few tokens to be taken in.", "short"),
    ("paradraft:draft_files_accepted_tokens", "Tokens from stored paths that became text.", "accepted"),
    ("paradraft:draft_files_errors", "Questions, continuations and credits that the service failed at.", "errors"),
    ("paradraft:draft_files_bad_messages", "Calls that the service could not understand.", "bad_messages"),
)


def drafter_families(status: DraftFilesStatus, *, model_name: str, engine: str) -> list[Metric]:
    """How the draft files are from where a drafter asks them."""
    labels = (model_name, engine)
    up = GaugeMetricFamily(
        "paradraft:draft_files_up", "1 while the drafter can ask, else 0.", labels=("model_name", "engine")
    )
    up.add_metric(labels, float(status.up))
    events = CounterMetricFamily(
        "paradraft:draft_files_events",
        "Questions, additions and credits of the drafter, and what became of them.",
        labels=("model_name", "engine", "event"),
    )
    for event, count in status.counters.items():
        events.add_metric((*labels, event), count)
    return [up, events]


def service_families(stats: DraftFilesStats, *, model_name: str) -> list[Metric]:
    """Of all namespaces together; once for all engines that share a service."""
    families: list[Metric] = []
    for name, text, key in _GAUGES:
        gauge = GaugeMetricFamily(name, text, labels=("model_name",))
        gauge.add_metric((model_name,), stats.gauges[key])
        families.append(gauge)
    for name, text, key in _COUNTERS:
        counter = CounterMetricFamily(name, text, labels=("model_name",))
        counter.add_metric((model_name,), stats.counters[key])
        families.append(counter)
    namespaces = GaugeMetricFamily(
        "paradraft:draft_files_namespaces",
        "Namespaces in use, by how vectors are searched.",
        labels=("model_name", "index"),
    )
    for kind, count in sorted(stats.namespaces.items()):
        namespaces.add_metric((model_name, kind), count)
    return [*families, namespaces]


def service_metrics(address: str, model_name: str) -> list[Metric]:
    """Those of the service at an address, asked now; none where it does not answer, as the engines' then say."""
    try:
        where = located(address)
        stats = read_stats(where if isinstance(where, str) else where(), SCRAPE_TIMEOUT_S)
    except Exception:  # of whatever kind, gRPC's or Ray's: it must not hide the others
        logger.exception("the cache service at %s gave no metrics", address)
        return []
    return service_families(stats, model_name=model_name)
