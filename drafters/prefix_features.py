"""Prefix features: what the target's states say of a text up to a place, as one vector. They cost no forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drafters.cached_config import CachedConfig
from drafters.context import DrafterContext
from protos.draft_files import Namespace
from protos.messages import DraftQuery

if TYPE_CHECKING:
    from modeling.features import Fusion

WIDTH = 128
RECENT = 16


def feature_layer(config: CachedConfig, context: DrafterContext) -> int:
    """The layer whose states are read: the configured one, else the last. ValueError for one there is not."""
    if config.feature_layer is None:
        return context.num_layers - 1
    if config.feature_layer >= context.num_layers:
        raise ValueError(
            f"speculative_config: feature_layer is {config.feature_layer}, but {context.target} has "
            f"{context.num_layers} layers, counted from 0; give one of them, or leave it out"
        )
    return config.feature_layer


def build_prefix_fusion(config: CachedConfig, context: DrafterContext) -> Fusion | None:
    """What the verifier runs; None where prefixes are found by their tokens alone."""
    if config.pooling == "none":
        return None
    from modeling.state_fusion import StateFusion  # torch: the drafter itself starts without

    return StateFusion(feature_layer(config, context), context.hidden_size, WIDTH)


def namespace_of(config: CachedConfig, context: DrafterContext, tenant: str) -> Namespace:
    """Where a tenant's drafts for the target lie: other weights, tokenizers or features have others."""
    features = config.pooling != "none"
    return Namespace(
        tenant=tenant,
        fingerprint=context.fingerprint,
        tokenizer=context.tokenizer,
        feature=f"layer {feature_layer(config, context)}, {config.pooling}" if features else "",
        width=WIDTH if features else 0,
    )


class PrefixFeatures:
    """The target's states of one text, row i of position i, and what is pooled of those before a place."""

    def __init__(self, pooling: str) -> None:
        self._pooling = pooling
        self._rows = np.zeros((64, WIDTH), np.float32)
        self._known = 0

    @property
    def need_from(self) -> int:
        """Where a query's tail must begin to bring the features that come next; see DraftQuery."""
        return self._known + 1 if self._known else 0

    def lacks(self, query: DraftQuery) -> bool:
        """Whether features of the text before the query's end have not been told."""
        return self._known < query.base_len - 1

    def write(self, query: DraftQuery) -> None:
        """Takes the features of a query, which end one before its text does."""
        if query.features is None:
            return
        start = max(query.tail_start - 1, 0)
        if start > self._known:
            return
        stop = start + len(query.features)
        if stop > len(self._rows):
            grown = np.zeros((2 * stop, WIDTH), np.float32)
            grown[: self._known] = self._rows[: self._known]
            self._rows = grown
        words = query.features.view(np.uint16).reshape(-1, WIDTH).astype(np.uint32)
        self._rows[start:stop] = (words << 16).view(np.float32)
        self._known = stop

    def before(self, place: int) -> NDArray[np.float32] | None:
        """The feature of the text before a place, [WIDTH]; None where the target has yet to process all of it."""
        if not 0 < place <= self._known:
            return None
        first = {"last": place - 1, "recent": max(place - RECENT, 0), "mean": 0}[self._pooling]
        pooled: NDArray[np.float32] = self._rows[first:place].mean(axis=0, dtype=np.float32)
        return pooled
