"""InvertedFile: how many lists there are, which rows a search sees, and whose threads it takes."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from cache_service.search.inverted_file import num_lists, one_thread, only


@pytest.mark.parametrize("rows", [[3], [0, 7, 8, 4095], list(range(0, 3000, 3)), [1 << 40, 5]])
def test_only_lets_through_what_it_names(rows: list[int]) -> None:
    selector = only(np.array(rows))
    near = {row + step for row in rows for step in (-1, 0, 1) if row + step >= 0}
    assert [row for row in sorted(near) if selector.is_member(row)] == sorted(rows)


@pytest.mark.parametrize(("rows", "lists"), [(0, 1), (20_000, 1), (20_001, 128), (100_000, 256), (1_000_000, 1024)])
def test_there_are_about_as_many_lists_as_rows_in_each(rows: int, lists: int) -> None:
    assert num_lists(rows) == lists


def test_one_thread_gives_the_others_back() -> None:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(3)
    with one_thread():
        assert faiss.omp_get_max_threads() == 1
    assert faiss.omp_get_max_threads() == 3
    faiss.omp_set_num_threads(before)
