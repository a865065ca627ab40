"""Reads /metrics as Prometheus does."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.integration.conftest import Server


def samples(server: Server, name: str, *, base: str | None = None) -> Iterator[Sample]:
    """All samples of one exact name."""
    for family in text_string_to_metric_families(server.get("/metrics", base=base).text):
        yield from (sample for sample in family.samples if sample.name == name)


def value(server: Server, name: str, *, base: str | None = None) -> float:
    """Sum over engines and labels."""
    found = list(samples(server, name, base=base))
    assert found, f"no sample of {name}"
    return sum(sample.value for sample in found)
