"""Stores: one writer, readers beside it, and what is in their directories."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from cache_service.storage.namespace import directory_name
from cache_service.storage.store import Store
from tests.cache_service.records import BUDGET, NAMESPACE, digest_of, disk_bytes, record, same, stored

OTHER = replace(NAMESPACE, tenant="bob")
HOLDS_FOR_GOOD = """
import sys, time
from pathlib import Path
from cache_service.storage.store import Store
store = Store.open(Path(sys.argv[1]), budget_bytes=2**20)
print("held", flush=True)
time.sleep(600)
"""


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS_FOR_GOOD, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match=rf"process {other.pid} writes to the draft files in {tmp_path}: ask its"):
            Store.open(tmp_path, budget_bytes=BUDGET)
        other.kill()
    Store.open(tmp_path, budget_bytes=BUDGET).close()


def test_a_second_writer_in_one_process_is_refused_too(tmp_path: Path) -> None:
    with (
        Store.open(tmp_path, budget_bytes=BUDGET),
        pytest.raises(ValueError, match=f"process {os.getpid()} writes"),
    ):
        Store.open(tmp_path, budget_bytes=BUDGET)


@pytest.mark.parametrize("make", [Path.touch, lambda path: (path / ".lock").mkdir(parents=True)])
def test_a_place_that_cannot_be_written_to_is_named(make: Callable[[Path], object], tmp_path: Path) -> None:
    place = tmp_path / "place"
    make(place)
    with pytest.raises(ValueError, match=rf"cannot be written in {place}: .*; give a directory of your own"):
        Store.open(place, budget_bytes=BUDGET)


def test_tenants_find_nothing_of_each_other(tmp_path: Path) -> None:
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        store.shelf(NAMESPACE).append([record(1)])
        store.shelf(OTHER).append([record(2)])
        assert store.shelf(OTHER).row_of(digest_of(1)) is None
        assert [len(shelf) for shelf in store.shelves()] == [1, 1]
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {
            directory_name(NAMESPACE),
            directory_name(OTHER),
        }


def test_a_reader_beside_the_writer_sees_what_is_stored_and_changes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        store.shelf(NAMESPACE).append([record(number) for number in range(300)])
        store.shelf(NAMESPACE).append([record(number, version=1) for number in range(100)])
        with Store.open(tmp_path, budget_bytes=BUDGET, read_only=True) as reader:
            before = disk_bytes(tmp_path)
            (shelf,) = reader.shelves()
            assert len(shelf) == 300
            for change in (
                lambda: shelf.append([record(1)]),
                shelf.flush,
                reader.flush,
                reader.compact_now,
                lambda: reader.drop(NAMESPACE),
            ):
                with pytest.raises(ValueError, match="was opened to be read: open it without read_only"):
                    change()
            assert disk_bytes(tmp_path) == before
            store.compact_now()
            assert all(same(stored(shelf, number), record(number)) for number in range(100, 300))


def test_a_reader_needs_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere does not exist"):
        Store.open(tmp_path / "nowhere", budget_bytes=BUDGET, read_only=True)


def test_a_store_that_is_closed_takes_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path, budget_bytes=BUDGET)
    shelf = store.shelf(NAMESPACE)
    store.close()
    store.close()
    with pytest.raises(ValueError, match="is closed: open it again"):
        shelf.append([record(1)])


def test_what_is_being_stored_when_it_closes_is_stored_or_refused(tmp_path: Path) -> None:
    store = Store.open(tmp_path, budget_bytes=4 * BUDGET)
    shelf, stored_, refused = store.shelf(NAMESPACE), [], []

    def append_until_refused() -> None:
        while not refused:
            number = len(stored_)
            try:
                shelf.append([record(number)])
                stored_.append(number)
            except ValueError as error:
                refused.append(str(error))

    thread = Thread(target=append_until_refused)
    thread.start()
    while len(stored_) < 20:
        time.sleep(0.001)
    store.close()
    thread.join()
    assert "is closed" in refused[0]
    with Store.open(tmp_path, budget_bytes=4 * BUDGET) as again:
        assert len(again.shelf(NAMESPACE)) == len(stored_)


def test_dropped_records_are_gone_for_good(tmp_path: Path) -> None:
    told = []
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        store.on_evict(lambda namespace, rows: told.append((namespace, rows.tolist())))
        rows = store.shelf(NAMESPACE).append([record(1), record(2)])
        store.shelf(OTHER).append([record(3)])
        store.flush()
        store.drop(NAMESPACE)
        assert told == [(NAMESPACE, rows)]
        assert not (tmp_path / directory_name(NAMESPACE)).exists()
        assert [shelf.namespace for shelf in store.shelves()] == [OTHER]
        store.shelf(NAMESPACE).append([record(4)])
        assert stored(store.shelf(NAMESPACE), 1) is None
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        assert stored(store.shelf(NAMESPACE), 1) is None
        assert stored(store.shelf(NAMESPACE), 4) is not None
        assert stored(store.shelf(OTHER), 3) is not None


def test_a_folder_under_another_name_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        store.shelf(NAMESPACE).append([record(1)])
    (tmp_path / directory_name(NAMESPACE)).rename(tmp_path / directory_name(OTHER))
    with pytest.raises(ValueError, match=f"rename it to {directory_name(NAMESPACE)}"):
        Store.open(tmp_path, budget_bytes=BUDGET)
    # What was refused holds the directory no longer.
    (tmp_path / directory_name(OTHER)).rename(tmp_path / directory_name(NAMESPACE))
    Store.open(tmp_path, budget_bytes=BUDGET).close()


def test_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", budget_bytes=BUDGET) as store:
        store.shelf(NAMESPACE).append([record(1)])
        store.flush()
        for path in [store.directory, *store.directory.rglob("*")]:
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("budgets", [{"budget_bytes": 1000}, {"budget_bytes": BUDGET, "tenant_budget_bytes": 0}])
def test_a_budget_that_is_too_small_is_named(tmp_path: Path, budgets: dict[str, int]) -> None:
    name, value = list(budgets.items())[-1]
    with pytest.raises(ValueError, match=f"{name} is {value}, which is too small .* give {BUDGET} or more"):
        Store.open(tmp_path, **budgets)
