"""The gRPC transport with a real server: addresses, health, bad frames, closing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import grpc
import msgpack
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from protos import draft_pb2, draft_pb2_grpc
from protos.codec import VERSION, Chunks, Queries, decode, encode
from protos.messages import DraftChunk, DraftQuery, Tokens
from services.transports.grpc_server import SERVICE, DraftServer
from tests.fakes.queries import query
from tests.fakes.scripted import Scripted, oracle
from tests.transports.rounds import ANSWER, PROMPT, TEXT, Dial, Serve, ask, until


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


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (draft_pb2.Frame(version=9, body=b""), "frame version 9 is unknown"),
        (draft_pb2.Frame(version=VERSION, body=b"\xc1"), "not msgpack"),
        (draft_pb2.Frame(version=VERSION, body=msgpack.packb(["close", [["x", 1]]])), "Ending must be a list of 3"),
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


def test_close_reaches_the_drafter(serve: Serve, dial: Dial, address: str) -> None:
    drafter: Scripted = oracle({PROMPT: ANSWER}, vocab_size=9)
    serve(drafter, address)
    client = dial(address)
    assert client.wait_until_up(30)
    ask(client, query(PROMPT))
    ask(client, query(TEXT[:5], seen=3))
    client.close("r", tail_start=4, tail=TEXT[4:])  # one token of which is there already
    until(lambda: not drafter.texts)
    assert drafter.finished == {"r": list(TEXT)}


def test_drafter_that_raises_behind_a_server(serve: Serve, dial: Dial, address: str) -> None:
    """Case M4: it is down, with its reason, until it answers a round without a failure."""

    class Broken:
        broken = True

        def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
            if self.broken:
                raise RuntimeError("it broke")
            yield from oracle({PROMPT: ANSWER}, vocab_size=9).draft(queries)

        def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
            raise RuntimeError("it broke")

    drafter = Broken()
    server = serve(drafter, address)
    client = dial(address)
    assert client.wait_until_up(30)
    for failures in (1, 2):
        until(lambda: not client._health.resting)
        (chunk,) = ask(client, query(PROMPT))
        assert ask(client, query(PROMPT)) == []  # it rests
        assert (chunk.tokens, chunk.need_from) == ((), 0)
        status = client.status()
        assert (status.up, status.reason) == (False, "RuntimeError: it broke")
        assert status.counters["errors"] == server.counters["errors"] == failures
    drafter.broken = False
    until(lambda: not client._health.resting)
    (chunk,) = ask(client, query(PROMPT))
    assert chunk.tokens == ANSWER
    assert (client.status().up, client.status().reason) == (True, "")


def test_what_cannot_be_packed_is_counted(serve: Serve, dial: Dial, address: str) -> None:
    serve(oracle({PROMPT: ANSWER}, vocab_size=9), address)
    client = dial(address)
    assert client.wait_until_up(30)
    assert ask(client, query(PROMPT, request_id="r" * (2**26))) == []
    client.close("r" * (2**26), tail=PROMPT)
    assert client.status().counters["errors"] == 2
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
