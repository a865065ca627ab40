"""Paths: what becomes of those of a prefix when one more text went on after it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cache_service.storage.paths import take
from protos.draft_files import MAX_PATHS, Path

TEXTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), min_size=1, max_size=40)


def after(*texts: tuple[int, ...]) -> tuple[Path, ...]:
    paths: tuple[Path, ...] = ()
    for text in texts:
        paths = take(paths, text).paths
    return paths


@given(texts=TEXTS)
def test_every_text_counts_once_until_paths_make_room(texts: list[tuple[int, ...]]) -> None:
    paths = after(*texts)
    assert 1 <= len(paths) <= MAX_PATHS
    if len(paths) < MAX_PATHS:
        assert sum(path.count for path in paths) == len(texts)


@given(texts=TEXTS, text=st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple))
def test_the_path_that_is_taken_agrees_with_the_text_and_the_others_stay(
    texts: list[tuple[int, ...]], text: tuple[int, ...]
) -> None:
    before = after(*texts)
    taken = take(before, text)
    path = taken.paths[taken.place]
    assert path.tokens[: len(text)] == text
    assert taken.changed == (taken.place == len(before) or path.tokens != before[taken.place].tokens)
    rest = [p for place, p in enumerate(taken.paths) if place != taken.place]
    assert rest == [p for place, p in enumerate(before) if place != taken.place]


def test_a_longer_text_replaces_what_it_begins_with() -> None:
    taken = take(after((1, 2), (3,)), (1, 2, 5))
    assert taken.paths == (Path(tokens=(1, 2, 5), count=2), Path(tokens=(3,), count=1))
    assert (taken.place, taken.changed) == (0, True)


def test_a_shorter_text_only_counts() -> None:
    taken = take(after((3,), (1, 2, 5)), (1, 2))
    assert taken.paths == (Path(tokens=(3,), count=1), Path(tokens=(1, 2, 5), count=2))
    assert (taken.place, taken.changed) == (1, False)


def test_of_two_that_agree_the_more_frequent_is_taken() -> None:
    assert take(after((1, 2, 3), (1, 2, 4), (1, 2, 4)), (1, 2)).place == 1


def test_of_two_that_agree_the_one_that_agrees_further_is_taken() -> None:
    paths = (Path(tokens=(1, 2), count=9), Path(tokens=(1, 2, 3, 4), count=1))
    assert take(paths, (1, 2, 3, 4, 5)).place == 1


def test_the_least_frequent_makes_room() -> None:
    paths = after(*((i,) for i in range(MAX_PATHS)), *((i,) for i in range(MAX_PATHS) if i != 5))
    taken = take(paths, (99,))
    assert (taken.place, taken.changed) == (5, True)
    assert taken.paths[5] == Path(tokens=(99,), count=1)
