"""Compaction: bytes of the dead come back, and nobody who reads notices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from cache_service.storage.compaction import compact
from cache_service.storage.frames import frame_bytes
from cache_service.storage.header import HEADER_BYTES
from cache_service.storage.record import encode
from cache_service.storage.shelf import Shelf
from cache_service.storage.store import Store
from tests.cache_service.records import BUDGET, NAMESPACE, digest_of, disk_bytes, record, same, stored, version_of

pytestmark = pytest.mark.usefixtures("hasty_disk")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path, budget_bytes=2 * BUDGET) as opened:
        yield opened


@pytest.fixture
def shelf(store: Store) -> Shelf:
    return store.shelf(NAMESPACE)


def test_what_lives_keeps_its_row_and_what_is_dead_gives_its_bytes(store: Store, shelf: Shelf) -> None:
    shelf.append([record(number) for number in range(600)])
    rows = shelf.append([record(number, version=1) for number in range(500)])
    before = shelf.num_bytes
    store.compact_now()
    assert [version_of(shelf.record(row)) for row in rows] == [1] * 500
    live = sum(frame_bytes(len(encode(record(number)))) for number in range(600))
    assert shelf.live_bytes == live
    assert shelf.num_bytes == live + HEADER_BYTES * len(shelf.segments.by_number) < before
    assert disk_bytes(store.directory / shelf.segments.folder) == shelf.num_bytes
    store.compact_now()
    assert shelf.num_bytes == live + HEADER_BYTES * len(shelf.segments.by_number)


def test_the_older_version_does_not_come_back(store: Store, shelf: Shelf) -> None:
    """Although, moved, it stands in a newer file than the newer one."""
    shelf.append([record(1)])
    old = next(iter(shelf.segments.by_number))
    shelf.segments.roll()
    shelf.append([record(1, version=1)])
    with store.writing:
        compact(shelf, max(shelf.segments.by_number))
    assert old in shelf.segments.by_number
    store.close()
    with Store.open(store.directory, budget_bytes=BUDGET) as again:
        assert version_of(stored(again.shelf(NAMESPACE), 1)) == 1
        again.compact_now()
        assert version_of(stored(again.shelf(NAMESPACE), 1)) == 1


def test_use_is_kept(store: Store, shelf: Shelf) -> None:
    rows = shelf.append([record(number) for number in range(10)])
    shelf.count(rows[4], 0)
    shelf.append([record(number, version=1) for number in range(3)])
    store.compact_now()
    assert shelf.record(rows[4]).paths[0].count == 3
    store.close()
    with Store.open(store.directory, budget_bytes=BUDGET) as again:
        assert stored(again.shelf(NAMESPACE), 4).paths[0].count == 3


def test_a_record_whose_bytes_have_changed_is_left_behind(
    store: Store, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.append([record(number) for number in range(4)])
    path = shelf.segments.by_number[1].path
    content = bytearray(path.read_bytes())
    content[content.index(digest_of(2)) + 50] ^= 1
    path.write_bytes(content)
    shelf.append([record(0, version=1)])
    store.compact_now()
    assert f"{path}: 1 records are lost" in caplog.text
    assert [stored(shelf, number) is None for number in range(4)] == [False, False, True, False]
    assert len(shelf) == 3


def test_the_thread_compacts_what_is_mostly_dead(store: Store, shelf: Shelf) -> None:
    for version in range(20):
        shelf.append([record(number, version=version) for number in range(200)])
    deadline = Event()
    for _ in range(200):
        if shelf.num_bytes < 4 * shelf.live_bytes:
            break
        deadline.wait(0.05)
    assert shelf.num_bytes < 4 * shelf.live_bytes
    assert all(version_of(stored(shelf, number)) == 19 for number in range(200))


def test_readers_go_on_while_files_come_and_go(store: Store, shelf: Shelf) -> None:
    steady = np.array(shelf.append([record(number) for number in range(300)]))
    contexts, features = shelf.contexts(steady), shelf.features(steady)
    done, wrong = Event(), []

    def read(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            while not done.is_set():
                picked = random.integers(0, 300, 40)
                assert (shelf.contexts(steady[picked]) == contexts[picked]).all()
                assert (shelf.features(steady[picked]) == features[picked]).all()
                assert shelf.alive(steady[picked]).all()
                for number in picked[:5].tolist():
                    assert same(stored(shelf, number), record(number))
                    shelf.touch(int(steady[number]), hits=1)
        except BaseException as error:
            wrong.append(error)

    readers = [Thread(target=read, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    for version in range(40):
        shelf.append([record(number, version=version) for number in range(1000, 1100)])
        store.compact_now()
        store.flush()
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert (shelf.contexts(steady) == contexts).all()


def test_no_file_stays_open_for_a_segment_that_is_gone(store: Store, shelf: Shelf) -> None:
    for version in range(30):
        rows = np.array(shelf.append([record(number, version=version) for number in range(100)]))
        shelf.contexts(rows)
        store.compact_now()
    held = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    assert [path for path in held if str(store.directory) in path and "(deleted)" in path] == []


def test_another_process_that_reads_misses_nothing_although_files_come_and_go(store: Store, shelf: Shelf) -> None:
    """It opens the store again and again, as `cache ls` beside a server."""
    done, turn = Event(), count()

    def churn() -> None:
        while not done.is_set():
            shelf.append([record(number, version=next(turn)) for number in range(60)])
            store.compact_now()

    shelf.append([record(number) for number in range(100)])
    writer = Thread(target=churn)
    writer.start()
    try:
        for _ in range(40):
            with Store.open(store.directory, budget_bytes=BUDGET, read_only=True) as reader:
                (found,) = reader.shelves()
                assert len(found) == 100
                assert all(stored(found, number) is not None for number in range(100))
    finally:
        done.set()
        writer.join()
    assert next(turn) > 120
