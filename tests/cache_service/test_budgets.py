"""Budgets: the disk is never fuller than was said, and who was used least recently goes first."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event, Thread

import numpy as np
import pytest

from cache_service.storage import upkeep
from cache_service.storage.namespace import directory_name
from cache_service.storage.shelf import Shelf
from cache_service.storage.store import Store
from protos.draft_files import Namespace
from tests.cache_service.records import BUDGET, NAMESPACE, digest_of, disk_bytes, record, same, stored

pytestmark = pytest.mark.usefixtures("hasty_disk")

PER_BUDGET = 2300  # records, about


def present(shelf: Shelf, numbers: range) -> list[int]:
    return [number for number in numbers if shelf.row_of(digest_of(number)) is not None]


def settle(store: Store) -> None:
    """Until nothing is left for the thread that tidies up."""
    while store.tidy_step():
        pass


def test_ten_times_the_capacity_stays_within_the_budget_and_the_newest_stay(tmp_path: Path) -> None:
    evicted: list[int] = []
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        store.on_evict(lambda _, rows: evicted.extend(rows.tolist()))
        shelf = store.shelf(NAMESPACE)
        total = 10 * PER_BUDGET
        for start in range(0, total, 100):
            shelf.append([record(number) for number in range(start, start + 100)])
            assert disk_bytes(tmp_path) <= BUDGET
            assert store.num_bytes <= BUDGET
        settle(store)
        kept = present(shelf, range(total))
        assert kept == list(range(total - len(kept), total))
        assert len(kept) > 0.6 * PER_BUDGET
        assert len(evicted) == len(set(evicted)) == total - len(shelf)
        assert shelf.totals.evictions == len(evicted)
        assert not shelf.alive(np.array(evicted)).any()
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        assert disk_bytes(tmp_path) <= BUDGET
        assert all(same(stored(shelf, number), record(number)) for number in range(total - 500, total))


def test_records_that_are_used_outlive_those_that_are_not(tmp_path: Path) -> None:
    wanted = range(0, 100, 5)
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        for start in range(0, 5 * PER_BUDGET, 100):
            shelf.append([record(number) for number in range(start, start + 100)])
            for number in wanted:
                shelf.touch(shelf.row_of(digest_of(number)), hits=1)
            store.flush()
            assert disk_bytes(tmp_path) <= BUDGET
        assert present(shelf, range(100)) == list(wanted)


def test_use_before_a_restart_counts(tmp_path: Path) -> None:
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        rows = shelf.append([record(number) for number in range(1000)])  # more than make room before it is seen
        for row in rows[:50]:
            shelf.touch(row, hits=1)
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        number = 1000
        while not shelf.totals.evictions:
            shelf.append([record(number)])
            number += 1
        assert present(shelf, range(50)) == list(range(50))


def test_a_tenant_has_to_stay_within_its_share(tmp_path: Path) -> None:
    busy, quiet = replace(NAMESPACE, tenant="busy"), replace(NAMESPACE, tenant="quiet")
    newer = replace(busy, fingerprint="newer weights")
    with Store.open(tmp_path, budget_bytes=4 * BUDGET, tenant_budget_bytes=BUDGET) as store:
        store.shelf(quiet).append([record(number) for number in range(500)])
        for start in range(0, 2 * PER_BUDGET, 100):
            for namespace in (busy, newer):
                store.shelf(namespace).append([record(number) for number in range(start, start + 100)])
            folders = [tmp_path / directory_name(namespace) for namespace in (busy, newer)]
            assert sum(disk_bytes(folder) for folder in folders) <= BUDGET
        assert len(store.shelf(quiet)) == 500
        assert len(store.shelf(newer)) > 0


def test_an_old_version_goes_when_its_room_is_needed(tmp_path: Path) -> None:
    newer = replace(NAMESPACE, fingerprint="newer weights")
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        store.shelf(NAMESPACE).append([record(number) for number in range(500)])
        store.flush()
        store.shelf(newer).append([record(number) for number in range(500)])
        assert len(store.shelf(NAMESPACE)) == 500
        for start in range(500, 2 * PER_BUDGET, 100):
            store.shelf(newer).append([record(number) for number in range(start, start + 100)])
        settle(store)
        assert len(store.shelf(NAMESPACE)) == 0
        assert not (tmp_path / directory_name(NAMESPACE)).exists()


def test_many_tenants_with_little_stay_within_the_budget_too(tmp_path: Path) -> None:
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        for tenant in range(600):
            shelf = store.shelf(Namespace(tenant=str(tenant), fingerprint="f", tokenizer="t"))
            shelf.append([replace(record(1), feature=None)])
            assert store.num_bytes <= BUDGET
        assert disk_bytes(tmp_path) <= BUDGET
        assert len(store.shelves()) > 200


def test_a_smaller_budget_holds_from_the_start(tmp_path: Path) -> None:
    with Store.open(tmp_path, budget_bytes=8 * BUDGET) as store:
        store.shelf(NAMESPACE).append([record(number) for number in range(3 * PER_BUDGET)])
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        assert disk_bytes(tmp_path) <= BUDGET
        kept = present(store.shelf(NAMESPACE), range(3 * PER_BUDGET))
        assert kept == list(range(3 * PER_BUDGET - len(kept), 3 * PER_BUDGET))
        assert len(kept) > 0.6 * PER_BUDGET


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_smaller_budget_on_a_full_disk_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path, budget_bytes=8 * BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        rows = shelf.append([record(number) for number in range(3 * PER_BUDGET)])
        for row in rows[::2]:
            shelf.touch(row, hits=1)
    with monkeypatch.context() as patch:
        patch.setattr("cache_service.storage.disk._write_at", full)
        with pytest.raises(ValueError, match=r"more bytes than their budget.*No space left on device; free room"):
            Store.open(tmp_path, budget_bytes=BUDGET)
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        assert store.num_bytes <= BUDGET


def test_what_is_within_its_budget_opens_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upkeep, "PAUSE_S", 60.0)  # so that what is dead is not compacted before the end
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        for count in (140, 100, 100):  # most of the first file is dead then
            shelf.append([record(number) for number in range(count)])
    with monkeypatch.context() as patch:
        patch.setattr("cache_service.storage.disk._write_at", full)
        with Store.open(tmp_path, budget_bytes=BUDGET) as store:
            assert present(store.shelf(NAMESPACE), range(140)) == list(range(140))
    assert "is not tidied up until more is stored: [Errno 28] No space left on device" in caplog.text


def test_readers_find_a_record_whole_or_not_at_all_while_others_make_room(tmp_path: Path) -> None:
    done, wrong, found = Event(), [], [0, 0]
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        shelf.append([record(number) for number in range(100)])
        stop = [100]

        def read(seed: int) -> None:
            random = Random(seed)
            try:
                while not done.is_set():
                    number = random.randrange(stop[0])
                    row = shelf.row_of(digest_of(number))
                    one = None if row is None else shelf.record(row)
                    found[one is not None] += 1
                    assert one is None or same(one, record(number))
                    if row is not None:
                        (context,) = shelf.contexts(np.array([row]))
                        assert tuple(context[context >= 0]) in (record(number).context, ())
                        shelf.touch(row, hits=1)
            except BaseException as error:
                wrong.append(error)

        readers = [Thread(target=read, args=(seed,)) for seed in range(3)]
        for reader in readers:
            reader.start()
        for start in range(100, 3 * PER_BUDGET, 50):
            shelf.append([record(number) for number in range(start, start + 50)])
            stop[0] = start + 50
        done.set()
        for reader in readers:
            reader.join()
        assert wrong == []
        assert min(found) > 0
