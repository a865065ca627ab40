"""Vectors against the cosines of all pairs, over a store on disk."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from cache_service.search import inverted_file, vectors
from cache_service.search.vectors import Vectors, unit
from cache_service.storage.record import Record
from cache_service.storage.shelf import Shelf
from cache_service.storage.store import Store
from protos.draft_files import Namespace, Path

WIDTH = 16
HOME = Namespace(tenant="a", fingerprint="f", tokenizer="t", feature="layer 1, mean", width=WIDTH)
PATHS = (Path(tokens=(1, 2, 3, 4)),)


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many lists from 500 rows on."""
    for module in (vectors, inverted_file):
        monkeypatch.setattr(module, "EXACT_ROWS", 500)


def features(count: int, seed: int = 0) -> np.ndarray:
    """Unit vectors around a few directions."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).standard_normal((8, WIDTH))
    around = centers[rng.integers(0, 8, count)] + 0.3 * rng.standard_normal((count, WIDTH))
    return (around / np.linalg.norm(around, axis=1, keepdims=True)).astype(np.float16)


def record(index: int, feature: np.ndarray | None) -> Record:
    return Record(digest=index.to_bytes(16, "little"), length=1, context=(1,), paths=PATHS, feature=feature)


def put(shelf: Shelf, values: np.ndarray, first: int = 0) -> np.ndarray:
    return np.array(shelf.append([record(first + i, value) for i, value in enumerate(values)]))


def truth(values: np.ndarray, sought: np.ndarray, rows: np.ndarray) -> list[int]:
    return rows[np.argsort(-(values[rows].astype(np.float32) @ sought))].tolist()


def test_rank_is_the_cosine_and_none_where_there_is_no_feature(store: Store) -> None:
    values = features(3)
    shelf = store.shelf(HOME)
    shelf.append([record(i, value) for i, value in enumerate([values[0], None, values[2]])])
    ranked = Vectors(shelf).rank(values[0].astype(np.float32), np.array([2, 1, 0]))
    assert ranked.pop(1) is None
    cosines = values.astype(np.float32) @ values[0].astype(np.float32)
    assert ranked == {0: pytest.approx(cosines[0], abs=1e-3), 2: pytest.approx(cosines[2], abs=1e-3)}


def test_while_few_the_nearest_are_exact(store: Store) -> None:
    values, sought = features(400), features(1, seed=1)[0].astype(np.float32)
    shelf = store.shelf(HOME)
    rows = put(shelf, values[:100])
    index = Vectors(shelf)
    for start in (100, 250):
        rows = put(shelf, values[start : start + 150], first=start)
        index.add(rows)
    assert index.kind == "exact"
    assert list(index.nearest(sought, 20)) == truth(values, sought, np.arange(400))[:20]
    for among in (np.arange(399, -1, -7), np.arange(0, 400, 2)[::-1]):  # without and with the index
        found = index.nearest(sought, 20, among=among)
        assert list(found) == truth(values, sought, among)[:20]
        cosines = values[list(found)].astype(np.float32) @ sought
        assert list(found.values()) == pytest.approx(cosines.tolist(), abs=1e-3)


def test_what_died_is_not_found(store: Store) -> None:
    values, sought = features(60), features(1, seed=1)[0].astype(np.float32)
    shelf = store.shelf(HOME)
    put(shelf, values)
    index = Vectors(shelf)
    best = truth(values, sought, np.arange(60))
    index.add(np.array(shelf.append([record(best[0], -values[best[0]])])))
    assert list(index.nearest(sought, 10)) == best[1:11]


@pytest.mark.usefixtures("few_are_many")
def test_beyond_there_are_many_lists_and_the_nearest_are_found_all_the_same(store: Store) -> None:
    values = features(3000)
    shelf = store.shelf(HOME)
    index = Vectors(shelf)
    for start in range(0, 3000, 300):
        index.add(put(shelf, values[start : start + 300], first=start))
    index.settle()
    assert index.kind == "ivf"
    for sought in features(20, seed=1).astype(np.float32):
        best = truth(values, sought, np.arange(3000))[:10]
        assert len(set(index.nearest(sought, 10)) & set(best)) >= 8
        among = np.arange(2999, 0, -3)
        found = index.nearest(sought, 10, among=among)
        assert len(found) == 10
        assert set(found) <= set(among.tolist())
        assert len(set(found) & set(truth(values, sought, among)[:10])) >= 8


@pytest.mark.usefixtures("few_are_many")
def test_rows_that_come_while_an_index_is_made_are_in_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    values = features(900)
    shelf = store.shelf(HOME)
    put(shelf, values[:400])
    index = Vectors(shelf)
    late: list[int] = []

    def made(num_rows: int, sample: np.ndarray) -> object:
        late.extend(put(shelf, values[600:], first=600).tolist())
        index.add(np.array(late))
        return inverted_file.InvertedFile(num_rows, sample)

    monkeypatch.setattr(vectors, "InvertedFile", made)
    index.add(put(shelf, values[400:600], first=400))
    index.settle()
    assert index.kind == "ivf"
    assert late == list(range(600, 900))
    for row in range(0, 900, 7):
        assert row in index.nearest(values[row].astype(np.float32), 5)


@pytest.mark.usefixtures("few_are_many")
def test_an_index_that_cannot_be_made_leaves_the_one_before(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    values = features(700)
    shelf = store.shelf(HOME)
    put(shelf, values[:400])
    index = Vectors(shelf)
    monkeypatch.setattr(vectors, "InvertedFile", lambda num_rows, sample: 1 / 0)
    for start in (400, 550):
        index.add(put(shelf, values[start : start + 150], first=start))
        index.settle()
    assert index.kind == "exact"
    assert [one.message[:39] for one in caplog.records] == ["no vector index for 550 prefixes: the i"]
    assert next(iter(index.nearest(values[699].astype(np.float32), 1))) == 699


@pytest.mark.usefixtures("few_are_many")
def test_before_the_first_index_the_newest_are_ranked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    values, sought = features(600), features(1, seed=1)[0].astype(np.float32)
    shelf = store.shelf(HOME)
    put(shelf, values)
    monkeypatch.setattr(Vectors, "_make_apart", lambda self, rows: None)
    index = Vectors(shelf)
    assert index.kind == "making"
    assert index.nearest(sought, 5) == {}
    newest_first = np.arange(599, -1, -1)
    newest = newest_first[: vectors.FEW_ROWS]
    assert list(index.nearest(sought, 5, among=newest_first)) == truth(values, sought, newest)[:5]


def test_an_index_that_is_mostly_dead_is_made_anew(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "READ_ROWS", 50)
    values = features(100)
    shelf = store.shelf(HOME)
    put(shelf, values)
    index = Vectors(shelf)
    held = index.num_bytes
    for _ in range(4):
        index.add(put(shelf, values))
    assert index.num_bytes <= 3 * held
    assert set(index.nearest(values[3].astype(np.float32), 100)) == set(shelf.live_rows().tolist())


@pytest.mark.usefixtures("few_are_many")
def test_few_features_among_many_prefixes_are_one_list(store: Store) -> None:
    values = features(4)
    shelf = store.shelf(HOME)
    shelf.append([record(i, None) for i in range(1000)])
    put(shelf, values, first=1000)
    index = Vectors(shelf)
    index.settle()
    assert set(index.nearest(values[0].astype(np.float32), 9)) == {1000, 1001, 1002, 1003}


def test_without_features_nothing_is_indexed(store: Store) -> None:
    shelf = store.shelf(Namespace(tenant="a", fingerprint="f", tokenizer="t"))
    rows = np.array(shelf.append([record(0, None)]))
    index = Vectors(shelf)
    index.add(rows)
    assert (index.kind, index.num_bytes) == ("none", 0)


def test_a_unit_has_length_one() -> None:
    assert unit(np.array([3, 4], np.float32), 2).tolist() == pytest.approx([0.6, 0.8])


class Gpu:
    """A GPU for FAISS: it searches as the CPU does, but not among given rows."""

    def __init__(self, resources: object, device: int, index: faiss.Index) -> None:
        self._index, self.cp = index, index.cp
        self.train, self.add_with_ids = index.train, index.add_with_ids

    @property
    def ntotal(self) -> int:
        return self._index.ntotal

    def search(self, sought: np.ndarray, k: int, *, params: faiss.SearchParametersIVF) -> tuple[np.ndarray, np.ndarray]:
        assert params.sel is None
        return self._index.search(sought, k, params=params)


@pytest.mark.usefixtures("few_are_many")
def test_many_lists_go_to_a_gpu(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", Gpu, raising=False)
    values = features(3000)
    shelf = store.shelf(HOME)
    put(shelf, values)
    index = Vectors(shelf)
    index.settle()
    assert index.kind == "ivf on gpu"
    for sought in features(20, seed=1).astype(np.float32):
        assert len(set(index.nearest(sought, 10)) & set(truth(values, sought, np.arange(3000))[:10])) >= 8
        among = np.arange(2999, 0, -3)
        found = index.nearest(sought, 10, among=among)
        assert len(found) == 10
        assert set(found) <= set(among.tolist())
        assert len(set(found) & set(truth(values, sought, among)[:10])) >= 8
