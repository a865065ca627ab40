"""The gRPC transport with a real server: addresses, health, bad frames, reconnection and what is lost with a stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from protos import draft_pb2, draft_pb2_grpc
from protos.codec import VERSION, Chunks, Queries, decode, encode
from protos.interfaces import Drafter
from protos.messages import DraftChunk, DraftQuery
from services.transports.grpc_client import GrpcDrafter
from services.transports.grpc_server import SERVICE, DraftServer
from tests.fakes.queries import query
from tests.fakes.scripted import Scripted, oracle

PROMPT, ANSWER = (1, 2, 3), (4, 5, 6, 7)
TEXT = PROMPT + ANSWER


def later(seconds: float = 30) -> float:
    return time.monotonic() + seconds


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = later(seconds)
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.005)


def ask(client: GrpcDrafter, one: DraftQuery) -> list[DraftChunk]:
    client.send([one])
    return client.collect(later())


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/drafter"


@pytest.fixture
def serve() -> Iterator[Callable[[Drafter, str], DraftServer]]:
    servers: list[DraftServer] = []

    def start(drafter: Drafter, where: str) -> DraftServer:
        server = DraftServer(drafter, where)
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def dial() -> Iterator[Callable[..., GrpcDrafter]]:
    clients: list[GrpcDrafter] = []

    def start(where: str, *, stall_s: float = 30) -> GrpcDrafter:
        clients.append(GrpcDrafter(where, stall_s=stall_s))
        return clients[-1]

    yield start
    for client in clients:
        client.shutdown()


Serve = Callable[[Drafter, str], DraftServer]
Dial = Callable[..., GrpcDrafter]


class Slow:
    """An oracle that waits for `go` before each answer."""

    def __init__(self) -> None:
        self.inner = oracle({PROMPT: ANSWER}, vocab_size=9)
        self.go = threading.Event()

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        self.go.wait(30)
        yield from self.inner.draft(queries)

    def close(self, request_id: str) -> None:
        self.inner.close(request_id)


def test_tcp_on_a_free_port(serve: Serve, dial: Dial) -> None:
    server = serve(oracle({PROMPT: ANSWER}, vocab_size=9), "127.0.0.1:0")
    assert not server.address.endswith(":0")
    client = dial(server.address)
    assert client.wait_until_up(30)
    (chunk,) = ask(client, query(PROMPT))
    assert chunk.tokens == ANSWER
    assert client.status().up
    assert client.status().reason == ""


def test_address_in_use_is_refused(serve: Serve) -> None:
    server = serve(oracle({}, vocab_size=9), "127.0.0.1:0")
    with pytest.raises(ValueError, match=r"cannot listen on '127\.0\.0\.1"):
        DraftServer(oracle({}, vocab_size=9), server.address)


def test_health_service(serve: Serve, address: str) -> None:
    server = serve(oracle({}, vocab_size=9), address)
    with grpc.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICE):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


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


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (draft_pb2.Frame(version=9, body=b""), "frame version 9 is unknown"),
        (draft_pb2.Frame(version=VERSION, body=b"\xc1"), "not msgpack"),
        (draft_pb2.Frame(version=VERSION, body=encode(Chunks(chunks=()))), "goes from a drafter to an engine"),
    ],
)
def test_bad_frame_ends_its_stream_with_the_reason_and_no_other(
    serve: Serve, dial: Dial, address: str, frame: draft_pb2.Frame, reason: str
) -> None:
    server = serve(oracle({PROMPT: ANSWER}, vocab_size=9), address)
    client = dial(address)
    assert client.wait_until_up(30)
    assert ask(client, query(PROMPT))[0].tokens == ANSWER
    with grpc.insecure_channel(address) as channel:
        good = draft_pb2.Frame(version=VERSION, body=encode(Queries(queries=(query(PROMPT, request_id="x"),))))
        replies = draft_pb2_grpc.DraftingStub(channel).Stream(iter([good, frame]))
        assert isinstance(decode(next(replies).body), Chunks)
        with pytest.raises(grpc.RpcError) as caught:
            next(replies)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert reason in caught.value.details()  # type: ignore[attr-defined]
    assert server.counters["bad_frames"] == 1
    assert ask(client, query(TEXT[:4], seen=3))[0].tokens == ANSWER[1:]
    assert client.status().counters["errors"] == 0


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


def test_close_reaches_the_drafter(serve: Serve, dial: Dial, address: str) -> None:
    drafter: Scripted = oracle({PROMPT: ANSWER}, vocab_size=9)
    serve(drafter, address)
    client = dial(address)
    assert client.wait_until_up(30)
    ask(client, query(PROMPT))
    client.close("r")
    until(lambda: not drafter.texts)


def test_drafter_that_raises_behind_a_server(serve: Serve, dial: Dial, address: str) -> None:
    class Broken:
        def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
            raise RuntimeError("broken")

        def close(self, request_id: str) -> None:
            raise RuntimeError("broken")

    server = serve(Broken(), address)
    client = dial(address)
    assert client.wait_until_up(30)
    for _ in range(2):
        (chunk,) = ask(client, query(PROMPT))
        assert (chunk.tokens, chunk.need_from) == ((), 0)
    assert server.counters["errors"] == 2
    assert client.status().up


def test_queries_that_cannot_be_packed_are_counted(serve: Serve, dial: Dial, address: str) -> None:
    serve(oracle({PROMPT: ANSWER}, vocab_size=9), address)
    client = dial(address)
    assert client.wait_until_up(30)
    assert ask(client, query(PROMPT, request_id="r" * (2**26))) == []
    assert client.status().counters["errors"] == 1
    assert ask(client, query(PROMPT))[0].tokens == ANSWER


def test_shutdown_is_idempotent_and_send_after_it_is_harmless(serve: Serve, dial: Dial, address: str) -> None:
    server = serve(oracle({PROMPT: ANSWER}, vocab_size=9), address)
    client = dial(address)
    assert client.wait_until_up(30)
    client.shutdown()
    client.shutdown()
    assert ask(client, query(PROMPT)) == []
    client.close("r")
    server.stop()
    server.stop()
