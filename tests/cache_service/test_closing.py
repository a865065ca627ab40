"""A store that is closed lets go of all it held, whoever closes it and however full the disk is."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cache_service.storage.store import Store
from tests.cache_service.records import BUDGET, NAMESPACE, digest_of, record

pytestmark = pytest.mark.usefixtures("hasty_disk")


def test_several_may_close_it_at_once(tmp_path: Path) -> None:
    for number in range(50):
        store = Store.open(tmp_path, budget_bytes=BUDGET)
        store.shelf(NAMESPACE).append([record(number)])
        with ThreadPoolExecutor(3) as threads:
            for closed in [threads.submit(store.close) for _ in range(3)]:
                closed.result(30)
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        assert all(store.shelf(NAMESPACE).row_of(digest_of(number)) is not None for number in range(50))


def test_it_opens_where_the_disk_has_no_room_for_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with (
        Store.open(tmp_path, budget_bytes=BUDGET),
        pytest.raises(ValueError, match="process of another program writes to the draft files"),
    ):
        Store.open(tmp_path, budget_bytes=BUDGET)
    Store.open(tmp_path, budget_bytes=BUDGET).close()


def test_its_files_are_no_longer_mapped(tmp_path: Path) -> None:
    with Store.open(tmp_path, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        (row,) = shelf.append([record(1)])
        assert shelf.record(row) is not None
        assert str(tmp_path) in Path("/proc/self/maps").read_text()
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
