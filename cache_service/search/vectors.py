"""Vectors: stored prefixes by the cosine of their features, over FAISS."""

from __future__ import annotations

import logging
import threading

import faiss
import numpy as np
from numpy.typing import NDArray

from cache_service.search.inverted_file import EXACT_ROWS, TRAINING_ROWS, InvertedFile, num_lists
from cache_service.storage.row_table import Rows
from cache_service.storage.shelf import Shelf

FEW_ROWS = 128  # are ranked without an index
FEWER_ROWS = 32  # of them where the index found some
GROWTH = 4  # times as many rows as an index was made for, and it is made anew
READ_ROWS = 4096  # features that are read at once
ADD_ROWS = 64  # that are added while a search has to wait

Unit = NDArray[np.float32]  # [width], of length 1
Cosines = dict[int, float | None]  # by row; None where a stored prefix has no feature

logger = logging.getLogger(__name__)


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
    """An inverted file of float16 vectors by inner product: of one list while rows are few, which makes it exact.

    Thread-safe. An index of many lists is made in a thread of its own, and made anew when it has outgrown its lists or
    half of its rows are dead; meanwhile the one before answers.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._width = shelf.namespace.width
        self._lock = threading.Lock()
        self._index: InvertedFile | None = None
        self._most = EXACT_ROWS  # that the index may grow to
        self._maker: threading.Thread | None = None
        self._later: list[Rows] = []  # came while an index is made, which has to learn of them
        self._closed = False
        self._renew()

    @property
    def kind(self) -> str:
        """`none` in a namespace without features, `making` before the first index, else see InvertedFile."""
        if not self._width:
            return "none"
        return "making" if self._index is None else self._index.kind

    @property
    def num_bytes(self) -> int:
        """Memory of the vectors and their numbers."""
        return 0 if self._index is None else self._index.num_bytes

    def add(self, rows: Rows) -> None:
        """One thread at a time."""
        if not self._width:
            return
        for start in range(0, len(rows), ADD_ROWS):
            some = rows[start : start + ADD_ROWS]
            features, featured = self._read(some)
            with self._lock:
                if self._maker is not None:
                    self._later.append(some)
                if self._index is not None:
                    self._index.add(features, featured)
        if self._maker is None and self._is_outgrown():
            self._renew()

    def rank(self, feature: Unit, rows: Rows, k: int | None = None) -> Cosines:
        """Of these rows the `k` highest cosines, or all of them, the highest first; exactly."""
        if not len(rows):
            return {}
        features = self._shelf.features(rows).astype(np.float32)
        wanted = len(rows) if k is None else min(k, len(rows))
        cosines, places = faiss.knn(feature[None], features, wanted, metric=faiss.METRIC_INNER_PRODUCT)
        return {
            # A shelf gives zeros where there is no feature.
            row: cosine if cosine or features[place].any() else None
            for row, cosine, place in zip(rows[places[0]].tolist(), cosines[0].tolist(), places[0], strict=True)
        }

    def nearest(self, feature: Unit, k: int, among: Rows | None = None) -> Cosines:
        """At most `k` rows, of these or of all, with the highest cosines, the highest first.

        Exact among FEW_ROWS. An index of many lists misses some; what it lacks is made up for by the newest, which are
        the first of `among`. Before the first index is made there are only these.
        """
        if among is None:
            found = self._search(feature, 2 * k, None)  # some are dead
            lives = self._shelf.alive(np.fromiter(found, np.int64, len(found)))
            return dict([item for item, alive in zip(found.items(), lives.tolist(), strict=True) if alive][:k])
        found = self._search(feature, k, among) if len(among) > FEW_ROWS else {}
        if len(found) < min(k, len(among)):
            found |= self.rank(feature, among[: max(k, FEWER_ROWS if found else FEW_ROWS)], k)
            found = dict(sorted(found.items(), key=_highest_first)[:k])
        return found

    def _search(self, feature: Unit, k: int, among: Rows | None) -> Cosines:
        if self._index is None:
            return {}
        with self._lock:
            rows, cosines = self._index.search(feature, k, among)
        return dict(zip(rows.tolist(), cosines.tolist(), strict=True))

    def settle(self) -> None:
        """Waits until no index is being made."""
        maker = self._maker
        if maker is not None:
            maker.join()

    def close(self) -> None:
        """No index is made any more."""
        self._closed = True
        self.settle()

    def _read(self, rows: Rows) -> tuple[NDArray[np.float32], Rows]:
        """The features of those that have one, and their rows."""
        features = self._shelf.features(rows)
        featured = features.any(axis=1)
        return features[featured].astype(np.float32), rows[featured]

    def _is_outgrown(self) -> bool:
        total = len(self._shelf) if self._index is None else len(self._index)
        return total > self._most or total > 2 * len(self._shelf) + READ_ROWS

    def _renew(self) -> None:
        """Makes an index of what lives, at once where this is little."""
        if not self._width:
            return
        rows = self._shelf.live_rows()
        if len(rows) <= EXACT_ROWS:
            self._make(rows)
            return
        self._maker = threading.Thread(target=self._make_apart, args=(rows,), name="vectors", daemon=True)
        self._maker.start()

    def _make_apart(self, rows: Rows) -> None:
        try:
            self._make(rows)
        except Exception:
            logger.exception("no vector index for %d prefixes: the index before, or n-grams alone, stay", len(rows))
            self._most = 2 * len(rows)  # before it is tried again
        with self._lock:
            self._maker, self._later = None, []

    def _make(self, rows: Rows) -> None:
        sample = np.random.default_rng(0).permutation(rows)[: TRAINING_ROWS * num_lists(len(rows))]
        index = InvertedFile(len(rows), self._read(np.sort(sample))[0])
        waiting = [rows]
        while waiting and not self._closed:
            for some in waiting:
                for start in range(0, len(some), READ_ROWS):
                    features, featured = self._read(some[start : start + READ_ROWS])
                    index.add(features, featured)
            with self._lock:
                waiting, self._later = self._later, []
                if not waiting:
                    self._index = index
                    self._most = EXACT_ROWS if index.kind == "exact" else GROWTH * len(rows)


def _highest_first(item: tuple[int, float | None]) -> float:
    return 1.0 if item[1] is None else -item[1]
