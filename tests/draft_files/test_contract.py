"""What holds of draft files in the same process and behind a server alike."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace

import numpy as np

from protos.draft_files import Findings, Hit, Path, Question
from services.draft_files.local import LocalDraftFiles
from tests.draft_files.conftest import Open
from tests.draft_files.rounds import answers, found, paths, until
from tests.fakes.draft_files import (
    NAMESPACE,
    PLAIN,
    POISON,
    ScriptedPretriever,
    continuation,
    credit,
    digest_of,
    prefix,
    question,
)


def test_what_was_added_is_found(open_files: Open) -> None:
    pretriever = ScriptedPretriever()
    files = open_files(pretriever)
    files.add([continuation(4, 5, 6, after=(1, 2, 3)), continuation(7, after=(1, 2, 3))])
    files.add([continuation(4, 5, 6, after=(1, 2, 3))])
    until(lambda: sum(pretriever.stored(1, 2, 3).values()) == 3)
    hit = Hit(
        digest=digest_of((1, 2, 3)),
        context=(1, 2, 3),
        paths=(Path(tokens=(4, 5, 6), count=2), Path(tokens=(7,), count=1)),
        match_length=3,
    )
    assert found(files, question(1, 2, 3, request_id="x"), question(9, request_id="y")) == [
        Findings(request_id="x", length=3, hits=(hit,)),
        Findings(request_id="y", length=1),
    ]
    until(lambda: files.status().counters["additions"] == 3)
    assert files.status().counters["questions"] == 2


def test_features_arrive_as_they_were(open_files: Open) -> None:
    pretriever = ScriptedPretriever()
    files = open_files(pretriever)
    files.add([continuation(4, after=(1,), namespace=NAMESPACE)])
    until(lambda: bool(pretriever.stored(1, namespace=NAMESPACE)))
    feature = np.array([0.1, 2, 3, 4], np.float32)
    asked = Question(request_id="r", namespace=NAMESPACE, prefix=prefix(1, feature=feature))
    [findings] = found(files, asked)
    assert findings.hits[0].similarity == float(feature[0])


def test_namespaces_are_apart(open_files: Open) -> None:
    """Cases R5 and Z6."""
    pretriever = ScriptedPretriever()
    files = open_files(pretriever)
    files.add([continuation(4, after=(1,))])
    until(lambda: bool(pretriever.stored(1)))
    others = [replace(PLAIN, **{field: "other"}) for field in ("tenant", "fingerprint", "tokenizer", "feature")]
    assert paths(found(files, *(question(1, namespace=other) for other in others))) == [[], [], [], []]
    assert paths(found(files, question(1))) == [[(4,)]]


def test_credits_arrive(open_files: Open) -> None:
    pretriever = ScriptedPretriever()
    files = open_files(pretriever)
    files.credit([credit(1, 2, accepted=7)])
    until(lambda: bool(pretriever.earned))
    assert pretriever.earned == [credit(1, 2, accepted=7)]
    until(lambda: files.status().counters["credits"] == 1)


def test_questions_that_gather_are_looked_up_at_once(open_files: Open) -> None:
    go = threading.Event()
    pretriever = ScriptedPretriever(lambda: go.wait(30))
    files = open_files(pretriever)
    files.ask([question(1)])
    until(lambda: pretriever.batches == [1])
    for token in range(5):
        files.ask([question(token), question(token, 0)])
    go.set()
    assert len(answers(files, 11)) == 11
    assert pretriever.batches == [1, 10]


def test_one_that_fails_takes_no_other_with_it(open_files: Open) -> None:
    pretriever = ScriptedPretriever()
    files = open_files(pretriever)
    assert [one.request_id for one in found(files, question(1, request_id="good"))] == ["good"]
    files.ask([question(1, request_id="x"), question(POISON, request_id="y"), question(2, request_id="z")])
    assert [one.request_id for one in answers(files, 2)] == ["x", "z"]
    until(lambda: not files.status().up)
    assert files.status().reason == f"RuntimeError: token {POISON}"
    assert files.status().counters["errors"] == 1
    found(files, question(1))
    until(lambda: files.status().up)
    assert files.status().reason == ""
    files.add([continuation(4, after=(1,)), continuation(4, after=(POISON,)), continuation(4, after=(2,))])
    until(lambda: files.status().counters["errors"] == 2)
    assert pretriever.stored(1) == pretriever.stored(2) == {(4,): 1}
    until(lambda: files.status().counters["additions"] == 2)


def test_a_pretriever_that_hangs_holds_nobody(open_files: Open) -> None:
    go = threading.Event()
    pretriever = ScriptedPretriever(lambda: go.wait(30))
    files = open_files(pretriever)
    for token in range(1000, 4000):  # none of them is POISON
        files.ask([question(token)])
    assert files.answers() == []
    files.add([continuation(4, after=(1,))])
    until(lambda: bool(pretriever.stored(1)))  # additions do not wait for look-ups
    assert files.status().counters["dropped_questions"] >= 3000 - 1 - 2 * 1024
    go.set()
    until(lambda: _settled(files.status().counters, asked=3000))
    assert files.status().up


def _settled(counters: dict[str, float], *, asked: int) -> bool:
    return counters["questions"] + counters["dropped_questions"] + counters["errors"] == asked


def test_nothing_is_nothing(open_files: Open) -> None:
    pretriever = ScriptedPretriever()
    files = open_files(pretriever)
    files.ask([])
    files.add([])
    files.credit([])
    found(files, question(1))
    assert pretriever.batches == [1]
    assert files.status().up


def test_answers_that_nobody_fetches_are_bounded_and_counted(open_files: Open) -> None:
    files = open_files(ScriptedPretriever())
    for round_ in range(1, 11):
        files.ask([question(1)] * 512)
        until(lambda: files.status().counters["questions"] == 512 * round_)  # noqa: B023
    until(lambda: files.status().counters["dropped_answers"] == 1024)
    assert len(files.answers()) == 4096


def test_close_takes_in_what_is_pending_and_nothing_after_it(open_files: Open) -> None:
    pretriever = ScriptedPretriever()
    files = open_files(pretriever)
    for token in range(600):
        files.add([continuation(4, after=(token,))])
        files.credit([credit(token)])
    files.close()
    files.close()
    assert all(pretriever.stored(token) for token in range(600))
    assert len(pretriever.earned) == 600
    files.ask([question(1)])
    files.add([continuation(4, after=(1,))])
    files.credit([credit(1)])
    status = files.status()
    assert (status.up, status.reason) == (False, "closed")
    assert [status.counters[f"dropped_{name}"] for name in ("questions", "additions", "credits")] == [1, 1, 1]
    assert files.answers() == []


def test_closing_closes_what_was_opened_with_it() -> None:
    closed: list[bool] = []
    opened = contextlib.ExitStack()
    opened.callback(closed.append, True)
    files = LocalDraftFiles(ScriptedPretriever(), opened)
    files.close()
    files.close()
    assert closed == [True]
