"""Merging: paths of both sides, each once, the most frequent where there is no room for all; again changes nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cache_service.transfer.merging import joined_paths
from protos.draft_files import MAX_PATHS, Path
from protos.messages import Tokens


def path(*tokens: int, count: int = 1) -> Path:
    return Path(tokens=tokens, count=count)


def test_a_path_that_goes_on_replaces_the_shorter_and_the_higher_count_holds() -> None:
    assert joined_paths([path(1, 2, count=5)], [path(1, 2, 3, count=2)]) == (path(1, 2, 3, count=5),)
    assert joined_paths([path(1, 2, 3, count=2)], [path(1, 2, count=5)]) == (path(1, 2, 3, count=5),)


def test_those_that_are_there_stand_first() -> None:
    assert joined_paths([path(1), path(2)], [path(3, count=9), path(2, count=4)]) == (
        path(1),
        path(2, count=4),
        path(3, count=9),
    )


def test_without_room_the_most_frequent_stay() -> None:
    here = [path(number, count=2) for number in range(MAX_PATHS)]
    more = [path(100, count=1), path(101, count=3)]
    assert joined_paths(here, more) == (*here[: MAX_PATHS - 1], path(101, count=3))


def _tokens() -> st.SearchStrategy[Tokens]:
    return st.lists(st.integers(0, 2), min_size=1, max_size=5).map(tuple)


def _paths() -> st.SearchStrategy[list[Path]]:
    made = st.builds(Path, tokens=_tokens(), count=st.integers(1, 9))
    return st.lists(made, max_size=MAX_PATHS).map(lambda several: list(joined_paths([], several)))


@given(_paths(), _paths())
def test_once_more_changes_nothing(here: list[Path], more: list[Path]) -> None:
    joined = joined_paths(here, more)
    assert joined_paths(joined, more) == joined
    assert len(joined) <= MAX_PATHS
    assert len({each.tokens for each in joined}) == len(joined)
    for each in joined:
        assert each.tokens in {other.tokens for other in (*here, *more)}
