"""Counters: what is kept of the use of records when a store is closed, or dies."""

from __future__ import annotations

import struct
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from cache_service.storage.counters import MAGIC, NAME, SAVED, SMALLEST, SPARE, USED, Counters
from cache_service.storage.shelf import Shelf
from cache_service.storage.store import Store
from cache_service.storage.usage import Totals
from tests.cache_service.records import BUDGET, NAMESPACE, digest_of, record, stored

TOTALS = Totals(lookups=5, hits=4, insertions=3, accepted=2, evictions=1)


def entries(*numbers: int, hits: int = 1) -> np.ndarray:
    made = np.zeros(len(numbers), SAVED)
    made["kind"] = USED
    made["digest"] = np.array([digest_of(number) for number in numbers], "V16")
    made["seq"], made["used"], made["hits"] = numbers, 10, hits
    return made


def open_counters(folder: Path) -> tuple[Counters, dict[bytes, int], Totals]:
    """And the hits by digest."""
    counters = Counters(folder)
    found, totals = counters.open(read_only=False)
    return counters, dict(zip(found["digest"].tolist(), found["hits"].tolist(), strict=True)), totals


def counts(shelf: Shelf, number: int) -> list[int]:
    return [path.count for path in stored(shelf, number).paths]


def test_the_last_entry_of_a_digest_holds(tmp_path: Path) -> None:
    counters = Counters(tmp_path)
    assert counters.open(read_only=False)[1] == Totals()
    counters.append(entries(1, 2), Totals())
    counters.append(entries(2, 3, hits=7), TOTALS)
    assert counters.num_bytes == (tmp_path / NAME).stat().st_size
    _, hits, totals = open_counters(tmp_path)
    assert hits == {digest_of(1): 1, digest_of(2): 7, digest_of(3): 7}
    assert totals == TOTALS


def test_a_file_cut_anywhere_keeps_the_entries_that_are_whole(tmp_path: Path) -> None:
    Counters(tmp_path).append(entries(1, 2), TOTALS)
    path = tmp_path / NAME
    content = path.read_bytes()
    for length in range(0, len(content), 3):
        path.write_bytes(content[:length])
        num_whole = max(0, length - 16) // SAVED.itemsize
        _, hits, _ = open_counters(tmp_path)
        assert list(hits) == [digest_of(1), digest_of(2)][:num_whole]
        counters, *_ = open_counters(tmp_path)
        counters.append(entries(9), TOTALS)
        assert digest_of(9) in open_counters(tmp_path)[1]


def test_a_flipped_byte_loses_one_entry_at_most(tmp_path: Path) -> None:
    Counters(tmp_path).append(entries(1, 2), TOTALS)
    path = tmp_path / NAME
    content = path.read_bytes()
    for position in range(0, len(content), 3):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        _, hits, totals = open_counters(tmp_path)
        hit = (position - 16) // SAVED.itemsize
        assert (digest_of(1) in hits, digest_of(2) in hits, totals == TOTALS) == (hit != 0, hit != 1, hit != 2)


def test_foreign_and_newer_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"name,hits\nx,1\n" * 20)
    with pytest.raises(ValueError, match=rf"{path} is not a file of counters: it begins with b'name,hit'; move it"):
        open_counters(tmp_path)
    head = struct.pack("<8sI", MAGIC, 2)
    path.write_bytes(head + struct.pack("<I", crc32(head)))
    with pytest.raises(ValueError, match=rf"{path} has schema 2, .* reads up to 1: upgrade it"):
        open_counters(tmp_path)


def test_use_is_known_after_a_restart(tmp_path: Path) -> None:
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        rows = shelf.append([record(number) for number in range(5)])
        for _ in range(3):
            shelf.count(rows[2], 1)
        shelf.touch(rows[3], hits=4, accepted=9)
    for _ in range(2):
        with Store.open(tmp_path, budget_bytes=BUDGET) as store:
            shelf = store.shelf(NAMESPACE)
            assert counts(shelf, 2) == [2, 4]
            usage = shelf.catalogue._usages[shelf.row_of(digest_of(3))]
            assert (usage.hits, usage.accepted) == (4, 9)


def test_what_was_flushed_survives_a_death(tmp_path: Path) -> None:
    """Without close: as after kill -9 the files are all there is."""
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        (row,) = shelf.append([record(1)])
        shelf.count(row, 0)
        store.flush()
        shelf.count(row, 0)
        with Store.open(tmp_path, budget_bytes=BUDGET, read_only=True) as reader:
            assert counts(reader.shelf(NAMESPACE), 1) == [3, 1]


def test_counts_of_paths_are_not_added_to_a_record_that_was_stored_anew(tmp_path: Path) -> None:
    """It has them already, whether or not the death came before the next flush."""
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        (row,) = shelf.append([record(1)])
        shelf.count(row, 0)
        shelf.touch(row, hits=6)
        store.flush()
        shelf.append([shelf.record(row)])
        with Store.open(tmp_path, budget_bytes=BUDGET, read_only=True) as reader:
            assert counts(reader.shelf(NAMESPACE), 1) == [3, 1]
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        assert counts(shelf, 1) == [3, 1]
        assert shelf.catalogue._usages[shelf.row_of(digest_of(1))].hits == 6


def test_a_disk_that_fails_loses_no_counts_that_can_still_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("the disk fails")

    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        (row,) = shelf.append([record(1)])
        shelf.count(row, 0)
        monkeypatch.setattr("cache_service.storage.disk._write_at", fails)
        with pytest.raises(OSError, match="the disk fails"):
            store.flush()
        monkeypatch.undo()
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        assert counts(store.shelf(NAMESPACE), 1) == [3, 1]


def test_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        rows = shelf.append([record(number) for number in range(10)])
        for _ in range(100):
            for row in rows:
                shelf.count(row, 0)
            store.flush()
            assert shelf.counters.num_bytes <= 16 + SAVED.itemsize * (SPARE * SMALLEST + 100)
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        assert [counts(store.shelf(NAMESPACE), number) for number in range(10)] == [[102, 1]] * 10


def test_a_flush_without_changes_writes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        (row,) = shelf.append([record(1)])
        shelf.count(row, 0)
        store.flush()
        size = shelf.counters.num_bytes
        store.flush()
        assert shelf.counters.num_bytes == size
