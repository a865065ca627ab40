"""Pretriever over a store on disk: what it finds, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cache_service.search.pretriever import Pretriever
from cache_service.search.shelf_index import Stages, ranked
from cache_service.storage.store import Store
from protos.draft_files import Continuation, Findings, Path
from tests.cache_service.questions import EAST, HOME, NORTH, NORTH_EAST, TEXT, add, ask, continuations, prefix


def test_nothing_is_found_where_nothing_is_stored(pretriever: Pretriever) -> None:
    assert ask(pretriever, TEXT, EAST) == Findings(request_id="r", length=40, hits=())


def test_a_stored_prefix_is_found_with_its_continuation(pretriever: Pretriever) -> None:
    add(pretriever, TEXT, (1, 2, 3, 4), EAST)
    (hit,) = ask(pretriever, TEXT, EAST).hits
    assert hit.digest == prefix(TEXT).digest
    assert hit.context == TEXT[-32:]
    assert hit.paths == (Path(tokens=(1, 2, 3, 4), count=1),)
    assert hit.match_length == 32
    assert hit.similarity == pytest.approx(1, abs=1e-3)


def test_the_same_end_is_enough_and_more_of_it_is_better(pretriever: Pretriever) -> None:
    for index, same in enumerate((4, 3, 20, 8)):
        add(pretriever, (*range(40 - same), *TEXT[-same:]), (index,) * 4, EAST)
    found = ask(pretriever, TEXT, EAST)
    assert continuations(found) == [(2,) * 4, (3,) * 4, (0,) * 4]  # three of the same tokens are no n-gram
    assert [hit.match_length for hit in found.hits] == [16, 8, 4]


def test_among_equal_ends_the_nearer_feature_is_first_and_the_far_one_is_no_hit(pretriever: Pretriever) -> None:
    for first, feature in enumerate((EAST, NORTH_EAST, NORTH)):
        add(pretriever, (first, *TEXT[-32:]), (first,) * 4, feature)
    found = ask(pretriever, TEXT, [1, 0.1, 0, 0])
    assert continuations(found) == [(0,) * 4, (1,) * 4]
    cosines = [hit.similarity for hit in found.hits]
    assert cosines == pytest.approx([1 / 1.01**0.5, 1.1 / 2.02**0.5], abs=1e-3)


def test_the_length_of_a_feature_says_nothing(pretriever: Pretriever) -> None:
    add(pretriever, TEXT, (1,) * 4, [1e6, 0, 0, 0])  # beyond what float16 holds
    (hit,) = ask(pretriever, TEXT[1:], [1e-6, 0, 0, 0]).hits
    assert hit.similarity == pytest.approx(1, abs=1e-3)


def test_the_prefix_itself_is_first_whatever_its_feature(pretriever: Pretriever) -> None:
    add(pretriever, TEXT, (1,) * 4, NORTH)
    add(pretriever, (0, *TEXT[-32:]), (2,) * 4, EAST)
    assert continuations(ask(pretriever, TEXT, EAST)) == [(1,) * 4, (2,) * 4]


@pytest.mark.parametrize(("size", "steps"), [(3, 0), (5, 4), (31, 16), (32, 32)])
def test_a_short_prefix_is_found_by_its_digest(pretriever: Pretriever, size: int, steps: int) -> None:
    add(pretriever, TEXT[:size], (1,) * 4)
    (hit,) = ask(pretriever, TEXT[:size]).hits
    assert (hit.match_length, hit.similarity) == (steps, None)


def test_without_features_the_newest_of_equals_is_first(pretriever: Pretriever) -> None:
    for first in range(6):
        add(pretriever, (first, *TEXT[-32:]), (first,) * 4)
    found = ask(pretriever, TEXT, EAST)
    assert continuations(found) == [(first,) * 4 for first in (5, 4, 3, 2)]
    assert {hit.similarity for hit in found.hits} == {None}


def test_max_hits_bounds_the_findings(store: Store) -> None:
    pretriever = Pretriever(store, min_similarity=0.5, max_hits=2)
    for first in range(6):
        add(pretriever, (first, *TEXT[-32:]), (first,) * 4)
    assert len(ask(pretriever, TEXT).hits) == 2


def test_ngrams_alone_ask_no_feature(store: Store) -> None:
    pretriever = Pretriever(store, min_similarity=0.5, stages=Stages.NGRAMS)
    add(pretriever, TEXT, (1,) * 4, EAST)
    (hit,) = ask(pretriever, TEXT[1:], NORTH).hits
    assert hit.similarity is None


def test_vectors_alone_ask_no_ngram(store: Store) -> None:
    pretriever = Pretriever(store, min_similarity=0.5, stages=Stages.VECTORS)
    add(pretriever, tuple(range(40)), (1,) * 4, EAST)
    add(pretriever, (0, *TEXT[-8:]), (2,) * 4, NORTH_EAST)
    add(pretriever, TEXT[1:], (3,) * 4, NORTH)
    found = ask(pretriever, TEXT, EAST)
    assert continuations(found) == [(2,) * 4, (1,) * 4]
    assert [hit.match_length for hit in found.hits] == [8, 0]
    assert ask(pretriever, TEXT).hits == ()


def test_of_a_crowd_the_nearest_are_taken_not_the_newest(store: Store) -> None:
    pretriever = Pretriever(store, min_similarity=0.9, max_candidates=5, max_hits=3)
    add(pretriever, (0, 0, *TEXT[-32:]), (7,) * 4, EAST)
    crowd = [
        Continuation(namespace=HOME, prefix=prefix((1, first, *TEXT[-8:]), NORTH), tokens=(9,) * 4)
        for first in range(200)
    ]
    crowd[50] = replace(crowd[50], prefix=prefix((1, 50, *TEXT[-8:]), [1, 0.1, 0, 0]), tokens=(8,) * 4)
    pretriever.add(crowd)
    found = ask(pretriever, TEXT, EAST)
    assert continuations(found) == [(7,) * 4, (8,) * 4]
    assert [hit.match_length for hit in found.hits] == [32, 8]
    assert continuations(ask(pretriever, TEXT)) == [(7,) * 4, (9,) * 4, (9,) * 4]


@pytest.mark.parametrize(
    "change", [{"tenant": "b"}, {"fingerprint": "g"}, {"tokenizer": "u"}, {"feature": "layer 2, mean"}]
)
def test_nothing_is_found_across_namespaces(pretriever: Pretriever, change: dict[str, str]) -> None:
    add(pretriever, TEXT, (1,) * 4, EAST)
    other = replace(HOME, **change)
    assert ask(pretriever, TEXT, EAST, other).hits == ()
    ask(pretriever, TEXT, EAST)
    counted = pretriever.metrics()
    assert (counted[HOME].lookups, counted[HOME].hits, counted[HOME].added) == (1, 1, 1)
    assert (counted[other].lookups, counted[other].hits, counted[other].records) == (1, 0, 0)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"min_similarity": 1.5}, "min_similarity is 1.5"),
        ({"min_similarity": 0, "max_hits": 0}, "max_hits is 0"),
        ({"min_similarity": 0, "max_hits": 65}, "max_hits is 65"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(store: Store, options: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Pretriever(store, **options)


def test_ranked_by_match_then_cosine_then_as_they_were() -> None:
    assert ranked([4, 16, 16, 4, 16, 4], [0.9, 0.1, 0.5, None, 0.5, 0.9]) == [2, 4, 1, 0, 5, 3]
    assert ranked([], []) == []
