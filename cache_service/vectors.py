"""Vectors: stored prefixes by the cosine of their features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cache_service.hash_index import Rows
from cache_service.shelf import Shelf

Unit = NDArray[np.float32]  # [width], of length 1
Cosines = NDArray[np.float32]  # NaN where a stored prefix has no feature


def unit(feature: NDArray[np.float32], width: int) -> Unit:
    """A feature's direction. ValueError where it has another width than its namespace's, or has no direction."""
    if feature.shape != (width,):
        raise ValueError(f"feature has shape {feature.shape}, its namespace has width {width}: send {width} numbers")
    values = feature.astype(np.float64)
    length = float(np.sqrt(values @ values))
    if not 0 < length < np.inf:
        raise ValueError(f"feature has length {length}, which is no direction: send finite numbers that are not all 0")
    return (values / length).astype(np.float32)


class Vectors:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.kind = "exact"

    def rank(self, feature: Unit, rows: Rows) -> Cosines:
        """Cosines of these rows, exactly."""
        features = self._shelf.features(rows)
        cosines = features.astype(np.float32) @ feature
        zero = np.flatnonzero(cosines == 0)
        cosines[zero[~features[zero].any(axis=1)]] = np.nan  # a shelf gives zeros where there is no feature
        return cosines

    def nearest(self, feature: Unit, k: int, among: Rows | None = None) -> tuple[Rows, Cosines]:
        """The `k` rows, of these or of all, with the highest cosines, the highest first."""
        rows = self._shelf.live_rows() if among is None else among
        cosines = self.rank(feature, rows)
        best = np.argsort(-cosines, kind="stable")[:k]
        best = best[~np.isnan(cosines[best])]
        return rows[best], cosines[best]
