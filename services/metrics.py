"""exposition: the metric families of all engines as one Prometheus text, each family once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric

CONTENT_TYPE = CONTENT_TYPE_LATEST


def exposition(engines: Sequence[Sequence[Metric]]) -> bytes:
    """Joins families of one name; their samples differ by the label `engine`, so nothing is added up or lost."""
    merged: dict[str, Metric] = {}
    for family in (family for families in engines for family in families):
        joint = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
        # `_created` gauges would be summed by consumers that match names by prefix.
        joint.samples.extend(sample for sample in family.samples if not sample.name.endswith("_created"))
    return generate_latest(_Families(merged.values()))


class _Families:
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
