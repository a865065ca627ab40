"""InvertedFile: the FAISS index of prefix features, float16 vectors by inner product in lists of what is near."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from cache_service.storage.row_table import Rows

EXACT_ROWS = 20_000  # so many are one list, which is searched whole
PROBES = 8  # lists of a larger index that are searched
TRAINING_ROWS = 32  # for each list
ROUNDS = 8  # of k-means
MAX_BITMAP_BYTES = 1 << 20
GPU_NEAREST = 1024  # found on a GPU, which cannot search among given rows, to choose those from

Vectors32 = NDArray[np.float32]  # [n, width], of length 1


def num_lists(num_rows: int) -> int:
    """About as many as each of them then has rows."""
    return 1 if num_rows <= EXACT_ROWS else 1 << round(np.log2(num_rows) / 2)


class InvertedFile:
    """With lists for `num_rows` vectors such as `sample`; with one list where these are too few to tell.

    One that has many lists is on the GPU where FAISS sees one. Not thread-safe.
    """

    def __init__(self, num_rows: int, sample: Vectors32) -> None:
        width = sample.shape[1]
        lists = num_lists(num_rows) if len(sample) >= num_lists(num_rows) else 1
        quantizer = faiss.IndexFlatIP(width)
        kind = faiss.ScalarQuantizer.QT_fp16
        self._index: Any = faiss.IndexIVFScalarQuantizer(quantizer, width, lists, kind, faiss.METRIC_INNER_PRODUCT)
        self._index.by_residual = False
        self._entry_bytes = int(self._index.code_size) + 8
        self._gpu: Any = None  # what FAISS holds there
        if lists > 1 and faiss.get_num_gpus():
            self._gpu = faiss.StandardGpuResources()
            self._index = faiss.index_cpu_to_gpu(self._gpu, 0, self._index)
        self._index.cp.niter, self._index.cp.min_points_per_centroid = ROUNDS, 1
        self._lists = lists
        with one_thread():
            self._index.train(sample if lists > 1 else np.ones((1, width), np.float32))

    def __len__(self) -> int:
        """Vectors, of the living and of the dead."""
        return int(self._index.ntotal)

    @property
    def kind(self) -> str:
        """`exact` with one list, else `ivf`, or `ivf on gpu`."""
        if self._lists == 1:
            return "exact"
        return "ivf" if self._gpu is None else "ivf on gpu"

    @property
    def num_bytes(self) -> int:
        """Of the vectors and their rows."""
        return self._entry_bytes * len(self)

    def add(self, vectors: Vectors32, rows: Rows) -> None:
        """[n, width] vectors of n rows."""
        with one_thread():
            self._index.add_with_ids(vectors, rows)

    def search(self, vector: Vectors32, k: int, among: Rows | None) -> tuple[Rows, Vectors32]:
        """At most `k` rows and their inner products with `vector` [width], the highest first; of `among`, or of all."""
        by_gpu = among is not None and self._gpu is not None
        selector = None if among is None or by_gpu else only(among)
        parameters = faiss.SearchParametersIVF(nprobe=PROBES, sel=selector)  # type: ignore[call-arg]
        with one_thread():
            products, rows = self._index.search(vector[None], GPU_NEAREST if by_gpu else k, params=parameters)
        there = rows[0] >= 0
        if among is not None and by_gpu:
            there &= np.isin(rows[0], among)
        return rows[0][there][:k], products[0][there][:k]


def only(rows: Rows) -> Any:
    """Lets a search see these rows alone. A bitmap is made fastest, but it has a bit for every row there ever was."""
    size = int(rows.max(initial=0)) // 8 + 1
    if size > MAX_BITMAP_BYTES:
        return faiss.IDSelectorBatch(rows)
    bits = np.zeros(size, np.uint8)
    np.bitwise_or.at(bits, rows >> 3, np.uint8(1) << (rows & 7).astype(np.uint8))
    return faiss.IDSelectorBitmap(bits)  # type: ignore[call-arg,arg-type]


@contextmanager
def one_thread() -> Iterator[None]:
    """FAISS keeps to the calling thread: the other cores decode."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
