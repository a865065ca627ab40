"""Vectors: stored prefixes by the cosine of their features, over FAISS."""

from __future__ import annotations

import logging
import threading
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from cache_service.hash_index import Rows
from cache_service.shelf import Shelf

EXACT_ROWS = 20_000  # so many are one list, which is searched whole
PROBES = 8  # lists of a larger index that are searched
TRAINING_ROWS = 32  # for each list
GROWTH = 4  # times as many rows as an index was made for, and it is made anew
READ_ROWS = 4096  # features that are read at once
ADD_ROWS = 64  # that are added while a search has to wait
MAX_BITMAP_BYTES = 1 << 20

Unit = NDArray[np.float32]  # [width], of length 1
Cosines = dict[int, float | None]  # by row; None where a stored prefix has no feature

log = logging.getLogger(__name__)


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
        self._index: Any = None  # faiss.IndexIVFScalarQuantizer
        self._made_for = 0
        self._maker: threading.Thread | None = None
        self._later: list[Rows] = []  # came while an index is made, which has to learn of them
        self._closed = False
        self._renew()

    @property
    def kind(self) -> str:
        """`none` in a namespace without features, `making` before the first index of many lists, `exact` or `ivf`."""
        if not self._width:
            return "none"
        index = self._index
        if index is None:
            return "making"
        return "exact" if index.nlist == 1 else "ivf"

    @property
    def num_bytes(self) -> int:
        """Memory of the vectors and their numbers."""
        index = self._index
        return 0 if index is None else int(index.ntotal) * (int(index.code_size) + 8)

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
                    self._index.add_with_ids(features, featured)
        if self._maker is None and self._is_outgrown():
            self._renew()

    def rank(self, feature: Unit, rows: list[int]) -> Cosines:
        """Cosines of these rows, exactly."""
        features = self._shelf.features(np.array(rows, np.int64))
        cosines = (features.astype(np.float32) @ feature).tolist()
        # A shelf gives zeros where there is no feature.
        known = (cosine if cosine or features[i].any() else None for i, cosine in enumerate(cosines))
        return dict(zip(rows, known, strict=True))

    def nearest(self, feature: Unit, k: int, among: Rows | None = None) -> Cosines:
        """At most `k` rows, of these or of all, with the highest cosines, the highest first, and these.

        Nothing before the first index is made; some of the nearest are missed where it has many lists.
        """
        if self._index is None:
            return {}
        wanted, options = 2 * k, {}  # without `among`, some of what is found is dead
        if among is not None:
            wanted, options = k, {"sel": _selector(among)}
        parameters = faiss.SearchParametersIVF(nprobe=PROBES, **options)  # type: ignore[call-arg]
        with self._lock:
            cosines, rows = self._index.search(feature[None], wanted, params=parameters)
        found = rows[0] >= 0
        if among is None:
            found &= self._shelf.alive(rows[0])
        return dict(zip(rows[0][found][:k].tolist(), cosines[0][found][:k].tolist(), strict=True))

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
        if self.kind == "making":  # could not be made
            return len(self._shelf) > GROWTH * self._made_for
        total = int(self._index.ntotal)
        most = EXACT_ROWS if self.kind == "exact" else GROWTH * self._made_for
        return total > max(most, self._made_for) or total > 2 * len(self._shelf) + READ_ROWS

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
        faiss.omp_set_num_threads(1)  # of this thread: the other cores decode
        try:
            self._make(rows)
        except Exception:
            log.exception("no vector index for %d prefixes: the index before, or n-grams alone, stay", len(rows))
            self._made_for = len(rows)  # tried again when there are many more
        with self._lock:
            self._maker, self._later = None, []

    def _make(self, rows: Rows) -> None:
        index = _empty(self._width, len(rows))
        if index.nlist > 1:
            sample = np.random.default_rng(0).choice(rows, min(len(rows), TRAINING_ROWS * index.nlist), replace=False)
            features, _ = self._read(np.sort(sample))
            index.train(features)
        else:
            index.train(np.ones((1, self._width), np.float32))
        waiting = [rows]
        while waiting and not self._closed:
            for some in waiting:
                for start in range(0, len(some), READ_ROWS):
                    features, featured = self._read(some[start : start + READ_ROWS])
                    index.add_with_ids(features, featured)
            with self._lock:
                waiting, self._later = self._later, []
                if not waiting:
                    self._index, self._made_for = index, len(rows)


def _empty(width: int, num_rows: int) -> Any:
    """An index with about as many lists as each list has rows."""
    lists = 1 if num_rows <= EXACT_ROWS else 1 << round(np.log2(num_rows) / 2)
    quantizer = faiss.IndexFlatIP(width)
    kind = faiss.ScalarQuantizer.QT_fp16
    index = faiss.IndexIVFScalarQuantizer(quantizer, width, lists, kind, faiss.METRIC_INNER_PRODUCT)
    index.by_residual = False
    index.cp.spherical, index.cp.niter = True, 8
    index.cp.min_points_per_centroid = 1
    return index


def _selector(rows: Rows) -> Any:
    """Lets a search see these rows alone. A bitmap is made fastest, but it has a bit for every row ever."""
    size = int(rows.max(initial=0)) // 8 + 1
    if size > MAX_BITMAP_BYTES:
        return faiss.IDSelectorBatch(rows)
    bits = np.zeros(size, np.uint8)
    np.bitwise_or.at(bits, rows >> 3, np.uint8(1) << (rows & 7).astype(np.uint8))
    return faiss.IDSelectorBitmap(bits)  # type: ignore[call-arg,arg-type]
