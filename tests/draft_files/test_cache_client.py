"""A drafter's end where the service is absent, dies, comes back elsewhere, or answers what cannot be read."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from protos import cache_pb2, cache_pb2_grpc
from services.draft_files import outgoing
from tests.draft_files.conftest import Dial, Serve
from tests.draft_files.rounds import found, paths, until
from tests.fakes.draft_files import POISON, ScriptedPretriever, continuation, credit, prefix, question

# A service in a process of its own; it says so once it answers.
SERVICE = """
import sys, threading
from services.draft_files.cache_server import CacheServer
from tests.fakes.draft_files import ScriptedPretriever
server = CacheServer(ScriptedPretriever(), sys.argv[1])
server.start()
print("up", flush=True)
threading.Event().wait()
"""


@contextlib.contextmanager
def running(address: str) -> Iterator[subprocess.Popen[bytes]]:
    """A service that answers; it is killed in the end."""
    service = subprocess.Popen([sys.executable, "-c", SERVICE, address], stdout=subprocess.PIPE)
    assert service.stdout is not None
    try:
        assert service.stdout.readline() == b"up\n"
        yield service
    finally:
        service.kill()
        service.communicate()


def test_nobody_there_costs_no_waiting_and_changes_are_kept(serve: Serve, dial: Dial, address: str) -> None:
    client = dial(address)
    client.ask([question(1), question(2)])
    client.add([continuation(4, after=(1,))])
    client.credit([credit(1)])
    assert client.answers() == []
    until(lambda: "UNAVAILABLE" in client.status().reason)
    status = client.status()
    assert not status.up
    assert status.counters == {
        "questions": 0,
        "additions": 0,
        "credits": 0,
        "dropped_questions": 2,
        "dropped_additions": 0,
        "dropped_credits": 0,
        "dropped_answers": 0,
        "errors": 0,
        "reconnects": 0,
        "stalls": 0,
    }
    pretriever = ScriptedPretriever()
    serve(pretriever, address)
    assert client.wait_until_up(30)
    until(lambda: client.status().counters["additions"] == client.status().counters["credits"] == 1)
    assert pretriever.earned == [credit(1)]
    assert paths(found(client, question(1))) == [[(4,)]]


def test_too_many_changes_leave_the_newest(
    serve: Serve, dial: Dial, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "MAX_KEPT", 3)
    client = dial(address)
    for token in range(5):
        client.add([continuation(4, after=(token,))])
        client.credit([credit(token)])
    pretriever = ScriptedPretriever()
    serve(pretriever, address)
    until(lambda: client.status().counters["credits"] == 3)
    assert pretriever.earned == [credit(2), credit(3), credit(4)]
    until(lambda: client.status().counters["additions"] == 3)
    assert [bool(pretriever.stored(token)) for token in range(5)] == [False, False, True, True, True]
    counters = client.status().counters
    assert (counters["dropped_additions"], counters["dropped_credits"]) == (2, 2)


def test_a_service_killed_while_it_is_asked_and_added_to(dial: Dial, address: str) -> None:
    """Killed and started again three times: no call waits or raises, and what it never took reaches the next one."""
    client = dial(address)
    first = asked = added = POISON + 1  # the pretriever takes all that come

    def busy() -> None:
        nonlocal asked, added
        client.ask([question(asked)])
        client.add([continuation(4, after=(added,))])
        asked, added = asked + 1, added + 1
        client.answers()

    for _ in range(3):
        with running(address):
            before = client.status().counters["additions"]
            until(lambda: (busy(), client.status().counters["additions"] > before + 20)[1])  # noqa: B023
        until(lambda: (busy(), not client.status().up)[1])
        assert client.status().reason
        for _ in range(50):
            busy()
    with running(address):
        until(lambda: client.status().counters["additions"] == added - first)
        client.answers()
        assert paths(found(client, question(added - 1))) == [[(4,)]]
        assert client.status().up
        counters = client.status().counters
    assert counters["reconnects"] == 3
    assert counters["dropped_additions"] == counters["errors"] == 0
    assert counters["dropped_questions"] >= 150
    assert counters["questions"] + counters["dropped_questions"] == asked - first + 1


def test_a_service_that_hangs_is_not_waited_for(dial: Dial, address: str) -> None:
    """Stopped by a signal: its connection stays open."""
    client = dial(address, stall_s=0.05)
    with running(address) as service:
        assert client.wait_until_up(30)
        found(client, question(1))
        os.kill(service.pid, signal.SIGSTOP)
        client.add([continuation(4, after=(1,))])
        until(lambda: (client.ask([question(1)]), client.status().counters["stalls"] >= 1)[1])
        assert not client.status().up
        os.kill(service.pid, signal.SIGCONT)
        until(lambda: client.status().up)
        until(lambda: client.status().counters["additions"] == 1)
        until(lambda: (client.ask([question(1)]), paths(client.answers())[:1] == [[(4,)]])[1])


def test_a_service_at_another_address_is_found(serve: Serve, dial: Dial) -> None:
    pretriever = ScriptedPretriever()
    first = serve(pretriever, "127.0.0.1:0")
    addresses = [first.address]
    client = dial(lambda: addresses[-1])
    assert client.wait_until_up(30)
    first.stop()
    until(lambda: not client.status().up)
    addresses.append(serve(pretriever, "127.0.0.1:0").address)
    assert client.wait_until_up(30)
    assert len(found(client, question(1))) == 1


def test_an_address_that_cannot_be_told_is_a_reason(dial: Dial, serve: Serve, address: str) -> None:
    known = False

    def tell() -> str:
        if not known:
            raise ConnectionError("nobody knows")
        return address

    client = dial(tell)
    until(lambda: client.status().reason == "nobody knows")
    serve(ScriptedPretriever(), address)
    known = True
    assert client.wait_until_up(30)


def test_what_cannot_be_sent_is_left_out_and_counted(serve: Serve, dial: Dial, address: str) -> None:
    pretriever = ScriptedPretriever()
    serve(pretriever, address)
    client = dial(address)
    assert client.wait_until_up(30)
    bad = replace(prefix(1), digest=b"abc")
    client.ask([replace(question(1, request_id="bad"), prefix=bad)])
    assert [one.request_id for one in found(client, question(1, request_id="good"))] == ["good"]
    client.add([replace(continuation(4, after=(1,)), prefix=bad), continuation(5, after=(1,))])
    client.credit([replace(credit(1), digest=b"")])
    until(lambda: bool(pretriever.stored(1)))
    until(lambda: client.status().counters["errors"] == 3)
    assert (pretriever.stored(1), pretriever.earned) == ({(5,): 1}, [])
    assert client.status().counters["additions"] == 1
    assert client.status().up


class Misbehaving(cache_pb2_grpc.DraftFilesServicer):
    """Refuses what is added, and answers each message by what it is given."""

    def __init__(self, answer: cache_pb2.Answers) -> None:
        self.answer = answer

    def LookUps(
        self, request_iterator: Iterator[cache_pb2.Questions], context: grpc.ServicerContext
    ) -> Iterator[cache_pb2.Answers]:
        context.send_initial_metadata(())
        for _ in request_iterator:
            yield self.answer

    def Add(self, request: cache_pb2.Continuations, context: grpc.ServicerContext) -> cache_pb2.Done:
        context.abort(grpc.StatusCode.INTERNAL, "it broke")

    def Credit(self, request: cache_pb2.Credits, context: grpc.ServicerContext) -> cache_pb2.Done:
        return cache_pb2.Done()


@pytest.fixture
def misbehaving(tmp_path: Path) -> Iterator[Misbehaving]:
    bad = cache_pb2.Findings(request_id="r", hits=[cache_pb2.Hit(digest=b"short")])
    servicer = Misbehaving(cache_pb2.Answers(findings=[bad]))
    server = grpc.server(ThreadPoolExecutor(4))
    cache_pb2_grpc.add_DraftFilesServicer_to_server(servicer, server)
    server.add_insecure_port(f"unix:{tmp_path}/cache")
    server.start()
    yield servicer
    server.stop(0).wait()


def test_an_unreadable_answer_costs_the_stream_alone(misbehaving: Misbehaving, dial: Dial, address: str) -> None:
    client = dial(address)
    assert client.wait_until_up(30)
    client.ask([question(1)])
    until(lambda: "the server sent what cannot be read: findings[0].hits[0].digest" in client.status().reason)
    assert client.answers() == []
    misbehaving.answer = cache_pb2.Answers(findings=[cache_pb2.Findings(request_id="r", length=1)])
    until(lambda: (client.ask([question(1)]), bool(client.answers()))[1])  # what goes with the old stream is lost


def test_what_a_service_refuses_is_not_brought_again(misbehaving: Misbehaving, dial: Dial, address: str) -> None:
    client = dial(address)
    assert client.wait_until_up(30)
    client.add([continuation(4, after=(1,))])
    client.credit([credit(1)])
    until(lambda: client.status().counters["credits"] == 1)
    counters = client.status().counters
    assert (counters["errors"], counters["additions"]) == (1, 0)


def test_closing_without_a_service_waits_for_nothing(dial: Dial, address: str) -> None:
    client = dial(address)
    client.add([continuation(4, after=(1,))])
    closing = threading.Thread(target=client.close)
    closing.start()
    closing.join(timeout=4)  # less than what it may wait for a service that is there
    assert not closing.is_alive()
    assert client.status().counters["dropped_additions"] == 1
