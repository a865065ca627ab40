"""Pretriever over a store on disk: what it finds, in which order, and what it keeps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path as FilePath

import numpy as np
import pytest

from cache_service import vectors
from cache_service.pretriever import Pretriever
from cache_service.shelf_index import Stages, ranked
from cache_service.store import Store
from protos.draft_files import MAX_PATH, MAX_PATHS, Continuation, Credit, Findings, Namespace, Path, Prefix, Question

HOME = Namespace(tenant="a", fingerprint="f", tokenizer="t", feature="layer 1, mean", width=4)
TEXT = tuple(range(100, 140))
EAST, NORTH, NORTH_EAST = ([1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0])


@pytest.fixture
def store(tmp_path: FilePath) -> Iterator[Store]:
    with Store.open(tmp_path, budget_bytes=1 << 22) as opened:
        yield opened


@pytest.fixture
def pretriever(store: Store) -> Pretriever:
    return Pretriever(store, min_similarity=0.5)


def prefix(tokens: tuple[int, ...], feature: list[float] | None = None) -> Prefix:
    return Prefix(
        tokens=tokens[-32:],
        length=len(tokens),
        digest=blake2b(str(tokens).encode(), digest_size=16).digest(),
        feature=None if feature is None else np.array(feature, np.float32),
    )


def add(
    to: Pretriever,
    tokens: tuple[int, ...],
    after: tuple[int, ...],
    feature: list[float] | None = None,
    namespace: Namespace = HOME,
) -> None:
    to.add([Continuation(namespace=namespace, prefix=prefix(tokens, feature), tokens=after)])


def ask(
    of: Pretriever, tokens: tuple[int, ...], feature: list[float] | None = None, namespace: Namespace = HOME
) -> Findings:
    (found,) = of.look_up([Question(request_id="r", namespace=namespace, prefix=prefix(tokens, feature))])
    return found


def continuations(found: Findings) -> list[tuple[int, ...]]:
    return [hit.paths[0].tokens for hit in found.hits]


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
    assert continuations(ask(pretriever, TEXT, EAST)) == [(7,) * 4, (8,) * 4]
    assert continuations(ask(pretriever, TEXT)) == [(7,) * 4, (9,) * 4, (9,) * 4]


def test_texts_that_go_on_alike_share_a_path(pretriever: Pretriever) -> None:
    for after in ((1, 2, 3, 4), (1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5), (1, 2, 3, 9), (1, 2, 3, 4, 5, 6)):
        add(pretriever, TEXT, after)
    (hit,) = ask(pretriever, TEXT).hits
    assert hit.paths == (Path(tokens=(1, 2, 3, 4, 5, 6), count=4), Path(tokens=(1, 2, 3, 9), count=1))


def test_one_call_may_add_to_a_prefix_more_than_once(pretriever: Pretriever) -> None:
    texts = [(1,) * 4, (2,) * 4, (2,) * 4]
    pretriever.add([Continuation(namespace=HOME, prefix=prefix(TEXT), tokens=after) for after in texts])
    (hit,) = ask(pretriever, TEXT).hits
    assert hit.paths == (Path(tokens=(2,) * 4, count=2), Path(tokens=(1,) * 4, count=1))
    assert pretriever.metrics()[HOME].records == 1


def test_the_least_taken_path_makes_room(pretriever: Pretriever) -> None:
    for first in (*range(MAX_PATHS), *range(1, MAX_PATHS), 99):
        add(pretriever, TEXT, (first, 1, 1, 1))
    (hit,) = ask(pretriever, TEXT).hits
    assert [path.tokens[0] for path in hit.paths] == [*range(1, MAX_PATHS), 99]
    assert [path.count for path in hit.paths] == [2] * (MAX_PATHS - 1) + [1]


def test_a_long_continuation_is_cut_and_a_short_one_left_out(pretriever: Pretriever) -> None:
    add(pretriever, TEXT, tuple(range(MAX_PATH + 9)))
    add(pretriever, TEXT[1:], (1, 2, 3))
    found = ask(pretriever, TEXT)
    assert continuations(found) == [tuple(range(MAX_PATH))]
    assert pretriever.metrics()[HOME].short == 1


def test_a_feature_may_come_later(pretriever: Pretriever) -> None:
    add(pretriever, TEXT, (1,) * 4)
    add(pretriever, TEXT, (1,) * 4, EAST)
    (hit,) = ask(pretriever, TEXT, EAST).hits
    assert hit.similarity == pytest.approx(1, abs=1e-3)
    assert hit.paths == (Path(tokens=(1,) * 4, count=2),)


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


def test_a_restart_finds_what_was_added(tmp_path: FilePath) -> None:
    with Store.open(tmp_path, budget_bytes=1 << 22) as store:
        first = Pretriever(store, min_similarity=0.5)
        for index in range(20):
            add(first, (index, *TEXT[-32:]), (index,) * 4, [1, index, 0, 0])
        add(first, (5, *TEXT[-32:]), (99,) * 4)
        add(first, (5, *TEXT[-32:]), (99,) * 4)
        before = ask(first, TEXT, EAST), ask(first, (5, *TEXT[-32:]), EAST)
    with Store.open(tmp_path, budget_bytes=1 << 22) as store:
        second = Pretriever(store, min_similarity=0.5)
        assert (ask(second, TEXT, EAST), ask(second, (5, *TEXT[-32:]), EAST)) == before
        assert before[1].hits[0].paths[0] == Path(tokens=(99,) * 4, count=2)
        add(second, (21, *TEXT[-32:]), (21,) * 4, EAST)
        assert continuations(ask(second, TEXT, EAST))[0] == (21,) * 4


def test_questions_are_answered_while_others_add_and_room_is_made(tmp_path: FilePath) -> None:
    done, failures, asked = threading.Event(), list[BaseException](), list[int]()
    with Store.open(tmp_path, budget_bytes=1 << 20) as store:  # room for about 3000 prefixes
        pretriever = Pretriever(store, min_similarity=0.0, max_candidates=8)

        def look_up() -> None:
            try:
                while not done.is_set():
                    found = ask(pretriever, (len(asked), *TEXT[-8:]), EAST)
                    asked.append(len(found.hits))
                    for hit in found.hits:
                        assert hit.context[-8:] == TEXT[-8:]
                        assert hit.paths[0].tokens == hit.context[:1] * 8
            except BaseException as error:
                failures.append(error)

        reader = threading.Thread(target=look_up)
        reader.start()
        for start in range(0, 5000, 100):
            pretriever.add(
                [
                    Continuation(namespace=HOME, prefix=prefix((i, *TEXT[-8:]), [1, i % 7, 0, 0]), tokens=(i,) * 8)
                    for i in range(start, start + 100)
                ]
            )
        done.set()
        reader.join()
        pretriever.close()
        assert failures == []
        assert asked[-1] == 4
        held = pretriever.metrics()[HOME]
        assert held.added == 5000
        assert held.records < 4000
        assert held.num_bytes <= 1 << 20


def test_evicted_prefixes_are_not_found_and_their_memory_comes_back(
    tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "READ_ROWS", 64)
    texts = [(i, 1, 2, 3, 4) for i in range(12_000)]
    with Store.open(tmp_path, budget_bytes=1 << 20) as store:
        pretriever = Pretriever(store, min_similarity=0.0)
        for start in range(0, len(texts), 1000):
            some = [prefix(text, EAST) for text in texts[start : start + 1000]]
            pretriever.add([Continuation(namespace=HOME, prefix=one, tokens=(1,) * 8) for one in some])
        assert ask(pretriever, texts[0], EAST).hits[0].digest != prefix(texts[0]).digest
        assert ask(pretriever, texts[-1], EAST).hits[0].digest == prefix(texts[-1]).digest
        held = pretriever.metrics()[HOME]
        assert held.index_bytes < 2.1 * held.records * 32  # one n-gram, and a vector with its number


def test_of_a_dropped_namespace_nothing_is_found(store: Store, pretriever: Pretriever) -> None:
    add(pretriever, TEXT, (1,) * 4, EAST)
    store.drop(HOME)
    assert ask(pretriever, TEXT, EAST).hits == ()
    add(pretriever, TEXT, (2,) * 4, EAST)
    assert continuations(ask(pretriever, TEXT, EAST)) == [(2,) * 4]


def test_what_is_gone_gets_no_credit(pretriever: Pretriever) -> None:
    add(pretriever, TEXT, (1,) * 4)
    pretriever.credit([Credit(namespace=HOME, digest=prefix(t).digest, accepted=3) for t in (TEXT, TEXT[1:])])
    assert pretriever.metrics()[HOME].accepted == 3


@pytest.mark.parametrize("bad", [[1, 0, 0], [0, 0, 0, 0], [float("nan"), 0, 0, 0], [float("inf"), 0, 0, 0]])
def test_a_bad_feature_is_refused_and_nothing_is_taken_in(pretriever: Pretriever, bad: list[float]) -> None:
    with pytest.raises(ValueError, match="feature has"):
        ask(pretriever, TEXT, bad)
    good = Continuation(namespace=HOME, prefix=prefix(TEXT, EAST), tokens=(1,) * 4)
    with pytest.raises(ValueError, match="feature has"):
        pretriever.add([good, replace(good, prefix=prefix(TEXT, bad))])
    assert ask(pretriever, TEXT).hits == ()


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
