"""DraftFilesStats: what draft files hold and did, of all tenants together: one tenant's would tell of its traffic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import grpc

from cache_service.storage.usage import NamespaceMetrics
from protos import cache_pb2, cache_pb2_grpc
from protos.draft_files import Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftFilesStats:
    """counters: lookups, hits (lookups that found something), added and short (continuations taken in, and too short to
    be), accepted (tokens), and those of a CacheServer. gauges, of the namespaces in use: records, bytes (on disk),
    index_bytes (of memory).

    namespaces: those in use, by how their vectors are searched.
    """

    counters: dict[str, float]
    gauges: dict[str, float]
    namespaces: dict[str, int]

    @classmethod
    def of(cls, metrics: Mapping[Namespace, NamespaceMetrics], server: Mapping[str, float]) -> DraftFilesStats:
        """The sum over all namespaces, and the server's own counters."""
        every = metrics.values()
        summed = {
            name: float(sum(getattr(one, name) for one in every))
            for name in ("lookups", "hits", "added", "short", "accepted")
        }
        gauges = {
            "records": float(sum(one.records for one in every)),
            "bytes": float(sum(one.num_bytes for one in every)),
            "index_bytes": float(sum(one.index_bytes for one in every)),
        }
        return cls(counters={**summed, **server}, gauges=gauges, namespaces=Counter(one.kind for one in every))

    def packed(self) -> cache_pb2.StatsAnswer:
        """As it crosses."""
        return cache_pb2.StatsAnswer(counters=self.counters, gauges=self.gauges, namespaces=self.namespaces)


def read_stats(address: str, timeout_s: float) -> DraftFilesStats:
    """Those of the service at an address, asked for now; grpc.RpcError where it does not answer."""
    with grpc.insecure_channel(address) as channel:
        answer = cache_pb2_grpc.DraftFilesStub(channel).Stats(cache_pb2.StatsRequest(), timeout=timeout_s)
    return DraftFilesStats(
        counters=dict(answer.counters), gauges=dict(answer.gauges), namespaces=dict(answer.namespaces)
    )
