"""Pretriever over a store on disk: what it keeps of what is added, beside others, over a restart, under a budget."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from cache_service.search import vectors
from cache_service.search.pretriever import Pretriever
from cache_service.storage.store import Store
from protos.draft_files import MAX_PATH, MAX_PATHS, Continuation, Credit, Path
from tests.cache_service.questions import EAST, HOME, TEXT, add, ask, continuations, prefix


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


@pytest.mark.usefixtures("hasty_disk")
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


@pytest.mark.usefixtures("hasty_disk")
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


@pytest.mark.usefixtures("hasty_disk")
def test_prefixes_that_learn_new_paths_take_no_more_memory(
    pretriever: Pretriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "READ_ROWS", 64)
    prefixes = [prefix((i, 1, 2, 3, 4), EAST) for i in range(200)]
    for path in range(20):
        pretriever.add([Continuation(namespace=HOME, prefix=one, tokens=(path,) * 8) for one in prefixes])
    held = pretriever.metrics()[HOME]
    assert held.records == 200
    assert held.index_bytes < 3 * held.records * 32
    assert len(ask(pretriever, (7, 1, 2, 3, 4), EAST).hits) == 4


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
