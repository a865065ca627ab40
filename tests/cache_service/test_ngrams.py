"""NGrams against a comparison of the tokens themselves."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cache_service.search.ngrams import ABSENT, ORDERS, NGrams, padded
from protos.draft_files import CONTEXT

TOKENS = st.lists(st.integers(0, 2), max_size=40).map(tuple)


def all_live(rows: np.ndarray) -> np.ndarray:
    return np.ones(len(rows), bool)


def ngrams(contexts: list[tuple[int, ...]], lives=all_live) -> NGrams:
    index = NGrams(lives)
    index.add(padded(contexts), np.arange(len(contexts)))
    return index


def match_length(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    fits = [order for order in ORDERS if order <= min(len(a), len(b)) and a[-order:] == b[-order:]]
    return max(fits, default=0)


def test_contexts_stand_at_the_right() -> None:
    rows = padded([(), (5,), tuple(range(40))])
    assert rows.dtype == np.int32
    assert rows[0].tolist() == [ABSENT] * CONTEXT
    assert rows[1].tolist() == [ABSENT] * (CONTEXT - 1) + [5]
    assert rows[2].tolist() == list(range(8, 40))


@given(contexts=st.lists(TOKENS, max_size=30), sought=TOKENS, limit=st.integers(1, 40))
def test_longest_first_then_newest_without_repeats(
    contexts: list[tuple[int, ...]], sought: tuple[int, ...], limit: int
) -> None:
    lengths = [match_length(context, sought) for context in contexts]
    rows = sorted((row for row, length in enumerate(lengths) if length), key=lambda row: (-lengths[row], -row))
    found = ngrams(contexts).candidates(sought, limit)
    assert list(found.with_newest(limit).items()) == [(row, lengths[row]) for row in rows[:limit]]
    crowd = lengths[rows[limit]] if len(rows) > limit else 0
    assert (found.crowd.order if found.crowd else 0) == crowd
    assert list(found.match_lengths) == [row for row in rows[:limit] if lengths[row] > crowd]


@given(contexts=st.lists(TOKENS, max_size=30), sought=TOKENS, dead=st.sets(st.integers(0, 29)))
def test_the_dead_are_not_found(contexts: list[tuple[int, ...]], sought: tuple[int, ...], dead: set[int]) -> None:
    index = ngrams(contexts, lambda rows: np.array([row not in dead for row in rows.tolist()], bool))
    limit = len(contexts) + 1
    for few in (1, 2, 5):
        alive = [row for row in range(len(contexts)) if row not in dead]
        rows = [alive[row] for row in ngrams([contexts[row] for row in alive]).candidates(sought, few).with_newest(few)]
        assert list(index.candidates(sought, few).with_newest(few)) == rows
    found = list(index.candidates(sought, limit).match_lengths)
    assert set(found) == {r for r, c in enumerate(contexts) if match_length(c, sought) and r not in dead}
    index.forget_dead()
    assert list(index.candidates(sought, limit).match_lengths) == found


def test_the_newest_dead_do_not_hide_older_ones() -> None:
    text = tuple(range(32))
    index = ngrams([text] * 5000, lambda rows: rows < 3)
    found = index.candidates(text, 2)
    assert list(found.with_newest(2)) == [2, 1]
    assert found.crowd is not None
    assert index.sharing(found.crowd, 10).tolist() == [2, 1, 0]


def test_a_crowd_is_all_that_share_the_ngram() -> None:
    contexts = [(1, 2, 3, 4), (9, 2, 3, 4), (0, 1, 2, 3, 4), (3, 4), (7, 1, 2, 3, 4)]
    index = ngrams(contexts)
    found = index.candidates((7, 1, 2, 3, 4), 2)
    assert list(found.with_newest(2)) == [4, 2]
    assert found.crowd is not None
    assert index.sharing(found.crowd, 10).tolist() == [4, 2, 0]


def test_an_order_is_no_part_of_another() -> None:
    """Four equal tokens at the end are not the same n-gram as eight."""
    found = ngrams([(1,) * 4, (1,) * 8]).candidates((1,) * 5, 9)
    assert list(found.match_lengths.items()) == [(1, 4), (0, 4)]
