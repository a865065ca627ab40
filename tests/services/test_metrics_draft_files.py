"""Metrics of draft files: names that dashboards rely on, types, and no tenant anywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cache_service.storage.usage import NamespaceMetrics
from protos.draft_files import DraftFilesStatus
from services.draft_files.cache_server import CacheServer
from services.draft_files.stats import DraftFilesStats
from services.metrics import exposition
from services.metrics_draft_files import drafter_families, service_families, service_metrics
from tests.fakes.draft_files import NAMESPACE, PLAIN, ScriptedPretriever

METRICS = NamespaceMetrics(
    records=7, num_bytes=100, index_bytes=10, kind="exact", lookups=6, hits=5, added=4, short=3, accepted=2
)
STATS = DraftFilesStats.of({PLAIN: METRICS, NAMESPACE: replace(METRICS, kind="ivf")}, {"errors": 1, "bad_messages": 0})


def shown(text: bytes) -> dict[str, dict[str, float]]:
    """Values by name and by all labels but model and engine."""
    values: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            own = ",".join(value for label, value in sample.labels.items() if label not in {"model_name", "engine"})
            values.setdefault(sample.name, {})[own] = sample.value
    return values


def test_a_service_is_shown_as_the_sum_of_its_namespaces() -> None:
    text = exposition([service_families(STATS, model_name="m")])
    assert shown(text) == {
        "paradraft:draft_files_records": {"": 14},
        "paradraft:draft_files_bytes": {"": 200},
        "paradraft:draft_files_index_bytes": {"": 20},
        "paradraft:draft_files_namespaces": {"exact": 1, "ivf": 1},
        "paradraft:draft_files_lookups_total": {"": 12},
        "paradraft:draft_files_hits_total": {"": 10},
        "paradraft:draft_files_additions_total": {"": 8},
        "paradraft:draft_files_short_continuations_total": {"": 6},
        "paradraft:draft_files_accepted_tokens_total": {"": 4},
        "paradraft:draft_files_errors_total": {"": 1},
        "paradraft:draft_files_bad_messages_total": {"": 0},
    }
    assert b"tenant" not in text


def test_a_drafter_tells_whether_it_can_ask() -> None:
    status = DraftFilesStatus(up=False, reason="gone", counters={"questions": 3, "dropped_questions": 2})
    text = exposition([drafter_families(status, model_name="m", engine=engine) for engine in ("0", "1")])
    assert shown(text) == {
        "paradraft:draft_files_up": {"": 0},
        "paradraft:draft_files_events_total": {"questions": 3, "dropped_questions": 2},
    }
    assert text.count(b'engine="1"') == 3


def test_a_service_is_asked_at_its_address() -> None:
    server = CacheServer(ScriptedPretriever(), "127.0.0.1:0")
    server.start()
    assert any(family.name == "paradraft:draft_files_records" for family in service_metrics(server.address, "m"))
    server.stop()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray:nobody"])
def test_a_service_that_does_not_answer_shows_nothing(address: str) -> None:
    assert service_metrics(address, "m") == []
