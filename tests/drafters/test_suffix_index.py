"""The index against a search by brute force, through appends, truncations and forgetting."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from drafters.suffix_index import MAX_CANDIDATES, RUNGS, SuffixIndex

texts = st.lists(st.integers(0, 2), max_size=60)


def longest_by_search(text: list[int], start: int, end: list[int]) -> tuple[int, list[int]]:
    """The longest match rounded to a rung, and all positions after it; the text's own end left out."""
    for rung in RUNGS:
        if rung <= len(end):
            found = [
                p for p in range(len(text) - 1, start, -1) if p - rung >= start and text[p - rung : p] == end[-rung:]
            ]
            if found:
                return rung, found
    return 0, []


@settings(max_examples=300)
@given(texts, texts, texts, st.integers(0, 60), st.lists(st.integers(0, 30), max_size=3))
def test_equals_brute_force(
    first: list[int], second: list[int], third: list[int], length: int, forgotten: list[int]
) -> None:
    index = SuffixIndex()
    index.extend(first)
    index.truncate(length)
    index.extend(second)
    text, count = first[:length] + second, 0
    for wanted in forgotten:
        part = min(wanted, len(text) - count)
        index.forget(part)
        count += part
    index.extend(third)
    text += third
    assert (index.start, len(index)) == (count, len(text))
    end = list(index.last(64))
    assert end == text[count:][-64:]
    match = index.match(array("i", end))
    rung, found = longest_by_search(text, count, end)
    if rung == 0:
        assert match is None
        return
    assert match is not None
    # Only the latest few occurrences of an n-gram are looked at, so a longer match further back may be missed.
    assert match.length <= rung
    assert match.starts
    for start in match.starts:
        assert text[start - match.length : start] == end[-match.length :]
        assert index[start] == text[start]
    if len(longest_by_search(text, count, end[-2:])[1]) <= MAX_CANDIDATES:
        assert (match.length, list(match.starts)) == (rung, found[:MAX_CANDIDATES])


@given(texts, st.integers(0, 60))
def test_truncation_leaves_no_trace(text: list[int], length: int) -> None:
    index, straight = SuffixIndex(), SuffixIndex()
    index.extend(text)
    index.truncate(length)
    straight.extend(text[:length])
    assert index.__dict__ == straight.__dict__


def test_forgetting_moves_each_row_once() -> None:
    """Rows are let go of in halves, not with each answer."""
    index, sizes = SuffixIndex(), []
    index.extend(range(1024))
    for _ in range(1000):
        index.forget(1)
        sizes.append(len(index._tokens))
    assert sorted(set(sizes), reverse=True) == [1024, 512, 256, 128, 64, 32]
    assert len(index) == 1024
    assert list(index.tokens(0, 2000)) == list(range(1000, 1024)) == list(index.last(100))
    assert index[1000] == 1000


@given(texts, texts, st.integers(0, 60))
def test_forgetting_everything_leaves_nothing(text: list[int], more: list[int], first: int) -> None:
    index = SuffixIndex()
    index.extend(text)
    index.forget(min(first, len(text)))
    index.extend(more)
    index.forget(len(index) - index.start)
    assert not any(index._heads)
    assert not any(index._previous)
    assert len(index.last(8)) == 0
