"""CachedConfig: the keys of `speculative_config` for method cached."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

from drafters.checks import check_number

POOLINGS = ("none", "last", "recent", "mean")
_OF_FEATURES = ("feature_layer", "min_similarity")
OF_THE_FILES = ("budget_bytes", "tenant_budget_bytes", "min_similarity")  # decided by whoever opens the directory


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedConfig:
    """draft_files: the directory that holds them; it is made where it is absent, and one process writes it at a time.
    address: instead of a directory, that of a running cache service, `host:port` or `unix:/path`.

    num_speculative_tokens: longest draft (tree nodes count). num_branches: above 1, other paths join as branches of a
    tree. min_survival: a token less likely than that to be reached and accepted is not proposed. budget_bytes: bound of
    the directory, tenant_budget_bytes that of one tenant in it (None: the same); what was used least recently goes
    first. pooling: how the target's states make a prefix's feature (see drafters.prefix_features); `none` finds
    prefixes by their tokens alone. feature_layer: whose states, None for the last. min_similarity: cosine of two
    features below which there is no hit. These three defaults are the best of benchmarks/ranking. A service has
    bounds and a similarity of its own.
    """

    draft_files: str | None = None
    address: str | None = None
    num_speculative_tokens: int = 16
    num_branches: int = 1
    min_survival: float = 0.1
    budget_bytes: int = 2**30
    tenant_budget_bytes: int | None = None
    pooling: str = "last"
    feature_layer: int | None = None
    min_similarity: float = 0.9

    def __post_init__(self) -> None:
        for name, given in (("draft_files", self.draft_files), ("address", self.address)):
            if given is not None and (not isinstance(given, str) or not given):
                raise ValueError(f"speculative_config: {name} is {given!r}; it must be a string, or be left out")
        if (self.draft_files is None) == (self.address is None):
            raise ValueError(
                f"speculative_config: method cached needs draft_files, a directory, or address, that of a cache "
                f"service, and not both; given are {self.draft_files!r} and {self.address!r}"
            )
        if self.pooling not in POOLINGS:
            raise ValueError(
                f"speculative_config: pooling is {self.pooling!r}; it must be one of {', '.join(POOLINGS)}"
            )
        for name, kind, low, high in _RANGES:
            check_number(name, getattr(self, name), kind, low, high)
        for name, low in (("tenant_budget_bytes", _LEAST_BYTES), ("feature_layer", 0)):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), int, low, 2**50)
        if self.address is not None:
            self._refuse(OF_THE_FILES, f"the service at {self.address!r} has its own; tell `paradraft cache serve`")
        if self.pooling == "none":
            self._refuse(_OF_FEATURES, "pooling 'none' makes no features; leave it out, or choose a pooling")

    def _refuse(self, names: Collection[str], reason: str) -> None:
        for key in fields(self):
            if key.name in names and getattr(self, key.name) != key.default:
                raise ValueError(f"speculative_config: {key.name} is {getattr(self, key.name)!r}, but {reason}")


_LEAST_BYTES = 2**20
_RANGES: tuple[tuple[str, type[int] | type[float], float, float], ...] = (
    ("num_speculative_tokens", int, 1, 256),
    ("num_branches", int, 1, 8),
    ("min_survival", float, 0, 1),
    ("budget_bytes", int, _LEAST_BYTES, 2**50),
    ("min_similarity", float, -1, 1),
)
