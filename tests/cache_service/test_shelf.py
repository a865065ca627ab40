"""Shelves: rows, digests, what is gathered of many records, and what becomes of the dead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cache_service.storage.paths import take
from cache_service.storage.shelf import Shelf
from cache_service.storage.store import Store
from protos.draft_files import CONTEXT, Namespace
from protos.draft_files import Path as DraftPath
from tests.cache_service.records import BUDGET, NAMESPACE, WIDTH, digest_of, record, same, stored, version_of

NOWHERE = 10**6


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path, budget_bytes=4 * BUDGET) as opened:
        yield opened


@pytest.fixture
def shelf(store: Store) -> Shelf:
    return store.shelf(NAMESPACE)


def test_records_are_found_by_row_and_by_digest(shelf: Shelf) -> None:
    rows = shelf.append([record(number) for number in range(50)])
    assert rows == sorted(set(rows))
    assert len(shelf) == 50
    for number, row in enumerate(rows):
        found = shelf.record(row)
        assert found is not None
        assert same(found, record(number))
        assert shelf.row_of(digest_of(number)) == row
    assert shelf.row_of(digest_of(50)) is None
    assert shelf.record(NOWHERE) is None
    assert shelf.live_rows().tolist() == rows


def test_they_are_there_after_a_restart_in_the_same_order(shelf: Shelf, store: Store) -> None:
    for start in range(0, 1500, 300):
        shelf.append([record(number) for number in range(start, start + 300)])
    shelf.append([record(number, version=1) for number in range(10)])
    assert len(shelf.segments.by_number) > 2
    store.close()
    with Store.open(store.directory, budget_bytes=4 * BUDGET) as again:
        (found,) = again.shelves()
        assert found.namespace == NAMESPACE
        assert len(found) == 1500
        assert all(same(stored(found, number), record(number)) for number in range(10, 1500))
        assert all(same(stored(found, number), record(number, version=1)) for number in range(10))
        order = [found.record(row).digest for row in found.live_rows().tolist()]
        assert order == [digest_of(number) for number in (*range(10, 1500), *range(10))]


def test_a_record_stored_anew_takes_the_place_of_the_older(shelf: Shelf) -> None:
    (old, other) = shelf.append([record(1), record(2)])
    (new,) = shelf.append([record(1, version=1)])
    assert shelf.alive(np.array([old, other, new, NOWHERE])).tolist() == [False, True, True, False]
    assert shelf.record(old) is None
    assert shelf.row_of(digest_of(1)) == new
    assert version_of(shelf.record(new)) == 1
    assert len(shelf) == 2


def test_the_last_of_one_digest_in_one_append_holds(shelf: Shelf) -> None:
    rows = shelf.append([record(1, version=version) for version in range(3)])
    assert shelf.alive(np.array(rows)).tolist() == [False, False, True]
    assert version_of(stored(shelf, 1)) == 2


def test_contexts_and_features_of_many_rows_in_their_order(shelf: Shelf) -> None:
    rows = np.array(shelf.append([record(number) for number in range(200)]))
    picked = np.random.default_rng(0).permutation(rows)
    contexts, features = shelf.contexts(picked), shelf.features(picked)
    assert (contexts.dtype, contexts.shape) == (np.int32, (200, CONTEXT))
    assert (features.dtype, features.shape) == (np.float16, (200, WIDTH))
    for row, context, feature in zip(picked.tolist(), contexts, features, strict=True):
        one = shelf.record(row)
        assert tuple(context[context >= 0]) == one.context
        assert (context[: CONTEXT - len(one.context)] == -1).all()
        assert (feature == (0 if one.feature is None else one.feature)).all()


def test_dead_rows_give_nothing(shelf: Shelf) -> None:
    (dead,) = shelf.append([record(1)])
    (alive,) = shelf.append([record(1, version=1)])
    rows = np.array([dead, NOWHERE, -1, alive])
    assert (shelf.contexts(rows)[:3] == -1).all()
    assert (shelf.features(rows)[:3] == 0).all()
    assert (shelf.features(rows)[3] != 0).all()
    shelf.touch(dead, hits=1)
    shelf.count(dead, 0)
    assert shelf.record(alive).paths == record(1, version=1).paths
    assert shelf.contexts(np.zeros(0, np.int64)).shape == (0, CONTEXT)


def test_a_namespace_may_have_no_features(store: Store) -> None:
    bare = store.shelf(Namespace(tenant="a", fingerprint="f", tokenizer="t"))
    (row,) = bare.append([record(3)])
    assert bare.features(np.array([row, NOWHERE])).shape == (2, 0)
    with pytest.raises(ValueError, match="a feature of 8 numbers; those of this namespace have 0"):
        bare.append([record(1)])


def test_counts_are_added_to_those_that_were_stored(shelf: Shelf) -> None:
    (row,) = shelf.append([record(1)])
    shelf.count(row, 1)
    shelf.count(row, 1)
    assert [path.count for path in shelf.record(row).paths] == [2, 3]
    with pytest.raises(ValueError, match="path 8: a record has the paths 0 to 7"):
        shelf.count(row, 8)
    # Whoever stores it anew stores what has been counted.
    (again,) = shelf.append([shelf.record(row)])
    assert [path.count for path in shelf.record(again).paths] == [2, 3]


def test_counts_stay_at_the_most_that_can_be_told(shelf: Shelf) -> None:
    often = replace(record(1), paths=(DraftPath(tokens=(1, 2, 3, 4), count=2**31 - 1),))
    (row,) = shelf.append([often])
    shelf.count(row, 0)
    assert [path.count for path in shelf.record(row).paths] == [2**31 - 1]
    (again,) = shelf.append([replace(often, paths=take(shelf.record(row).paths, (1, 2, 3, 4, 5)).paths)])
    assert shelf.record(again).paths == (DraftPath(tokens=(1, 2, 3, 4, 5), count=2**31 - 1),)


def test_totals_go_on_after_a_restart(shelf: Shelf, store: Store) -> None:
    (row, _) = shelf.append([record(1), record(2)])
    shelf.touch(row, hits=1, accepted=7)
    shelf.tally(lookups=3, hits=1)
    before = shelf.totals
    assert (before.lookups, before.hits, before.insertions, before.accepted, before.evictions) == (3, 1, 2, 7, 0)
    store.close()
    with Store.open(store.directory, budget_bytes=BUDGET) as again:
        assert again.shelf(NAMESPACE).totals == before


def test_one_that_has_no_place_stops_the_others(shelf: Shelf) -> None:
    wide = replace(record(2), feature=np.zeros(WIDTH + 1, np.float16))
    with pytest.raises(ValueError, match="a feature of 9 numbers; those of this namespace have 8"):
        shelf.append([record(1), wide])
    assert len(shelf) == 0
    assert shelf.num_bytes == 0


def test_a_record_larger_than_a_file_is_refused(tmp_path: Path) -> None:
    wide = Namespace(tenant="a", fingerprint="f", tokenizer="t", feature="all", width=40_000)
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        large = replace(record(1), feature=np.zeros(40_000, np.float16))
        with pytest.raises(ValueError, match=r"a record of \d+ bytes does not fit .* give the store a larger budget"):
            store.shelf(wide).append([large])


def test_a_record_whose_bytes_change_is_gone_and_no_other(shelf: Shelf) -> None:
    """While it is open, too."""
    rows = shelf.append([record(number) for number in range(3)])
    path = next(iter(shelf.segments.by_number.values())).path
    content = bytearray(path.read_bytes())
    place = content.index(digest_of(1))
    content[place + 100] ^= 1
    path.write_bytes(content)
    assert [shelf.record(row) is None for row in rows] == [False, True, False]


def test_rows_are_forgotten_when_most_are_dead_and_stay_the_same(shelf: Shelf) -> None:
    kept = shelf.append([record(number) for number in range(5)])
    for version in range(12):
        shelf.append([record(number, version=version, path_tokens=2) for number in range(100, 500)])
    known = shelf.catalogue._table.entries
    assert len(known) < 12 * 400
    assert [same(shelf.record(row), record(number)) for number, row in enumerate(kept)] == [True] * 5
    assert len(shelf) == 405
    assert all(version_of(stored(shelf, number)) == 11 for number in range(100, 500))
    assert shelf.alive(np.array([kept[0], 5, 2000])).tolist() == [True, False, False]
