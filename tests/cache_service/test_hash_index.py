"""HashIndex against a plain list of entries."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_service.storage import hash_index
from cache_service.storage.hash_index import HashIndex

HASHES = st.sampled_from([0, 1, 2, 1 << 63, (1 << 64) - 2, (1 << 64) - 1])


def add(index: HashIndex, hashes: list[int], first_row: int) -> None:
    index.add(np.array(hashes, np.uint64), np.arange(first_row, first_row + len(hashes)))


@given(batches=st.lists(st.lists(HASHES, max_size=12), max_size=8), sought=HASHES, limit=st.integers(1, 20))
def test_it_finds_what_a_list_would(batches: list[list[int]], sought: int, limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hash_index, "MAX_RECENT", 7)  # so that some are merged and some are not
        index, entries = HashIndex(), list[int]()
        for batch in batches:
            add(index, batch, len(entries))
            entries += batch
        rows = [row for row, hash_ in enumerate(entries) if hash_ == sought]
        assert len(index) == len(entries)
        assert index.find(np.uint64(sought), limit).tolist() == rows[::-1][:limit]
        index.keep(lambda rows: rows % 2 == 0)
        rows = [row for row in rows if row % 2 == 0]
        assert index.find(np.uint64(sought), limit).tolist() == rows[::-1][:limit]
        assert len(index) == (len(entries) + 1) // 2


def test_its_bytes_are_those_of_its_arrays() -> None:
    index = HashIndex()
    add(index, list(range(100_000)), 0)
    entries = index._entries
    assert index.num_bytes == entries.hashes.nbytes + entries.rows.nbytes == 1_600_000


def test_readers_see_every_entry_that_was_added_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_index, "MAX_RECENT", 64)
    index, done, lost = HashIndex(), threading.Event(), list[int]()

    def read() -> None:
        while not done.is_set():
            added = index.find(np.uint64(7), 1)
            newest = int(added[0]) if len(added) else -1
            if len(index.find(np.uint64(7), 6000)) < newest // 3 + 1:
                lost.append(newest)

    reader = threading.Thread(target=read)
    reader.start()
    for row in range(0, 6000, 3):
        add(index, [7, 8, 9], row)
    done.set()
    reader.join()
    assert lost == []
    assert len(index.find(np.uint64(7), 6000)) == 2000
