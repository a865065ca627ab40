"""The gRPC transport where the server is absent, slow, stalled, or dies and comes back empty."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from protos.messages import DraftChunk, DraftQuery, Tokens
from services.transports.grpc_server import DraftServer
from tests.fakes.queries import query
from tests.fakes.scripted import Scripted, oracle
from tests.transports.rounds import ANSWER, PROMPT, TEXT, Dial, Serve, ask, later, until


class Slow:
    """An oracle that waits for `go` before each answer."""

    def __init__(self) -> None:
        self.inner = oracle({PROMPT: ANSWER}, vocab_size=9)
        self.go = threading.Event()
        self.calls = 0

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        self.calls += 1
        self.go.wait(30)
        yield from self.inner.draft(queries)

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        self.inner.close(request_id, tail_start=tail_start, tail=tail)


def test_nobody_there_costs_no_waiting(dial: Dial, address: str) -> None:
    client = dial(address)
    assert ask(client, query(PROMPT)) == []
    status = client.status()
    assert not status.up
    assert status.reason
    assert status.counters["dropped"] == 1


def test_client_before_server(serve: Serve, dial: Dial, address: str) -> None:
    client = dial(address)
    serve(oracle({PROMPT: ANSWER}, vocab_size=9), address)
    assert client.wait_until_up(30)
    assert ask(client, query(PROMPT))[0].tokens == ANSWER


def test_slow_drafter_costs_one_deadline_and_comes_back(serve: Serve, dial: Dial, address: str) -> None:
    drafter = Slow()
    serve(drafter, address)
    client = dial(address)
    assert client.wait_until_up(30)
    client.send([query(PROMPT)])
    assert client.collect(later(0.03)) == []
    assert not client.status().up
    assert "after the deadline" in client.status().reason
    assert ask(client, query(TEXT[:4], seen=3)) == []  # neither sent nor waited for
    drafter.go.set()
    until(lambda: client.status().up)
    assert [chunk.base_len for chunk in client.collect(later())] == [3]  # the late one
    assert ask(client, query(TEXT[:5], seen=3))[0].tokens == ANSWER[2:]
    assert client.status().counters["timeouts"] == 1


def test_stalled_drafter_gets_a_new_stream(serve: Serve, dial: Dial, address: str) -> None:
    drafter = Slow()
    server = serve(drafter, address)
    client = dial(address, stall_s=0.02)
    assert client.wait_until_up(30)
    client.send([query(PROMPT)])
    client.collect(later(0.01))

    def stalled() -> bool:
        client.send([query(PROMPT)])
        return client.status().counters["stalls"] >= 1

    until(stalled)
    drafter.go.set()
    until(lambda: server.counters["streams"] >= 2 and client.status().up)
    until(lambda: any(chunk.tokens == ANSWER for chunk in ask(client, query(PROMPT))))


def test_hung_drafter_uses_up_no_threads(dial: Dial, address: str) -> None:
    """More streams come and go than the server has threads, while the drafter answers nobody."""
    drafter = Slow()
    server = DraftServer(drafter, address, max_streams=2)
    server.start()
    client = dial(address, stall_s=0.01)

    def given_up(times: int) -> bool:
        client.send([query(PROMPT)])
        client.collect(later(0.01))
        return client.status().counters["stalls"] >= times

    try:
        assert client.wait_until_up(30)
        until(lambda: given_up(4))
        drafter.go.set()
        until(lambda: any(chunk.tokens == ANSWER for chunk in ask(client, query(PROMPT))))
        assert drafter.calls < server.counters["streams"]  # what nobody waits for any more is not drafted
        client.shutdown()
        until(lambda: not server._service._owners and not drafter.inner.texts)
    finally:
        drafter.go.set()
        server.stop()


def test_server_that_dies_and_comes_back_empty(serve: Serve, dial: Dial, address: str) -> None:
    first = serve(oracle({PROMPT: ANSWER}, vocab_size=9), address)
    client = dial(address)
    assert client.wait_until_up(30)
    assert ask(client, query(PROMPT))[0].tokens == ANSWER
    first.stop()
    until(lambda: not client.status().up)
    assert ask(client, query(TEXT[:4], seen=3)) == []
    serve(oracle({PROMPT: ANSWER}, vocab_size=9), address)
    assert client.wait_until_up(30)
    (lost,) = ask(client, query(TEXT[:5], seen=3))
    assert (lost.tokens, lost.need_from) == ((), 0)
    assert ask(client, query(TEXT[:5]))[0].tokens == ANSWER[2:]
    assert client.status().counters["reconnects"] == 1


def test_server_that_dies_while_it_is_waited_for(serve: Serve, dial: Dial, address: str) -> None:
    drafter = Slow()
    server = serve(drafter, address)
    client = dial(address)
    assert client.wait_until_up(30)
    killer = threading.Timer(0.05, server.stop)
    killer.start()
    assert ask(client, query(PROMPT)) == []  # before its deadline of 30 s
    killer.join()
    drafter.go.set()


def test_requests_of_a_stream_that_ends_are_closed(serve: Serve, dial: Dial, address: str) -> None:
    drafter: Scripted = oracle({PROMPT: ANSWER}, vocab_size=9)
    serve(drafter, address)
    gone, stays = dial(address), dial(address)
    for name, client in (("gone", gone), ("stays", stays)):
        assert client.wait_until_up(30)
        assert ask(client, query(PROMPT, request_id=name))
    assert set(drafter.texts) == {"gone", "stays"}
    gone.shutdown()
    until(lambda: set(drafter.texts) == {"stays"})
    assert drafter.finished == {"gone": list(PROMPT)}
