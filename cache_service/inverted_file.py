"""The FAISS index of prefix features: an inverted file of float16 vectors by inner product."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from cache_service.hash_index import Rows

EXACT_ROWS = 20_000  # so many are one list, which is searched whole
PROBES = 16  # lists of a larger index that are searched
TRAINING_ROWS = 32  # for each list
ROUNDS = 8  # of k-means
MAX_BITMAP_BYTES = 1 << 20


def num_lists(num_rows: int) -> int:
    """About as many as each of them then has rows."""
    return 1 if num_rows <= EXACT_ROWS else 1 << round(np.log2(num_rows) / 2)


def made_for(num_rows: int, sample: NDArray[np.float32]) -> Any:
    """An empty index with lists for `num_rows` unit vectors such as these; with one where these are too few to tell."""
    width = sample.shape[1]
    lists = num_lists(num_rows) if len(sample) >= num_lists(num_rows) else 1
    quantizer = faiss.IndexFlatIP(width)
    kind = faiss.ScalarQuantizer.QT_fp16
    index = faiss.IndexIVFScalarQuantizer(quantizer, width, lists, kind, faiss.METRIC_INNER_PRODUCT)
    index.by_residual = False
    index.cp.spherical, index.cp.niter, index.cp.min_points_per_centroid = True, ROUNDS, 1
    index.train(sample if lists > 1 else np.ones((1, width), np.float32))
    return index


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
