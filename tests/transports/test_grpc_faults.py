"""An engine's end against servers that misbehave: garbage, duplicates, other orders, half answers, other messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from protos import draft_pb2, draft_pb2_grpc
from protos.codec import VERSION, Chunks, Close, Queries, decode, encode
from protos.draft import Draft
from protos.messages import DraftChunk, DraftQuery
from services.transports import grpc_client
from services.transports.grpc_client import GrpcDrafter
from tests.fakes.queries import query

PROMPT = (1, 2, 3)
Behave = Callable[[DraftQuery], Iterator[draft_pb2.Frame]]


class Misbehaving(draft_pb2_grpc.DraftingServicer):
    """Answers each query by `behave`, which may change between queries."""

    def __init__(self, behave: Behave) -> None:
        self.behave = behave

    def Stream(
        self, request_iterator: Iterator[draft_pb2.Frame], context: grpc.ServicerContext
    ) -> Iterator[draft_pb2.Frame]:
        context.send_initial_metadata(())
        for frame in request_iterator:
            message = decode(frame.body)
            if isinstance(message, Queries):
                for one in message.queries:
                    yield from self.behave(one)


@pytest.fixture
def servicer(tmp_path: Path) -> Iterator[Misbehaving]:
    servicer = Misbehaving(good)
    server = grpc.server(ThreadPoolExecutor(4))
    draft_pb2_grpc.add_DraftingServicer_to_server(servicer, server)
    server.add_insecure_port(f"unix:{tmp_path}/drafter")
    server.start()
    yield servicer
    server.stop(0).wait()


@pytest.fixture
def client(servicer: Misbehaving, tmp_path: Path) -> Iterator[GrpcDrafter]:
    client = GrpcDrafter(f"unix:{tmp_path}/drafter", stall_s=0.05)
    assert client.wait_until_up(30)
    yield client
    client.shutdown()


def framed(*chunks: DraftChunk) -> draft_pb2.Frame:
    return draft_pb2.Frame(version=VERSION, body=encode(Chunks(chunks=chunks)))


def part(one: DraftQuery, offset: int, *, last: bool) -> DraftChunk:
    return DraftChunk(
        request_id=one.request_id,
        base_len=one.base_len,
        offset=offset,
        tokens=(10 + offset,),
        parents=(offset - 1,),
        survival=(0.5,),
        last=last,
    )


def good(one: DraftQuery) -> Iterator[draft_pb2.Frame]:
    yield framed(part(one, 0, last=False))
    yield framed(part(one, 1, last=True))


def garbage(_one: DraftQuery) -> Iterator[draft_pb2.Frame]:
    yield draft_pb2.Frame(version=VERSION, body=b"\x93garbage")


def other_version(_one: DraftQuery) -> Iterator[draft_pb2.Frame]:
    yield draft_pb2.Frame(version=77, body=b"")


def an_engine_s_message(_one: DraftQuery) -> Iterator[draft_pb2.Frame]:
    yield draft_pb2.Frame(version=VERSION, body=encode(Close(endings=())))


def raising(one: DraftQuery) -> Iterator[draft_pb2.Frame]:
    yield framed(part(one, 0, last=False))
    raise RuntimeError("dies mid-stream")


def drafted(client: GrpcDrafter, base_len: int, *, seconds: float = 30) -> Draft:
    """The draft that the engine would make of what comes."""
    draft = Draft(request_id="r", base_len=base_len)
    client.send([query(list(range(base_len)))])
    for chunk in client.collect(time.monotonic() + seconds):
        draft = draft.extend(chunk)
    return draft


def recovers(client: GrpcDrafter) -> None:
    deadline = time.monotonic() + 30
    base_len = 50
    while drafted(client, base_len).tokens != (10, 11):
        assert time.monotonic() < deadline, client.status()
        base_len += 1
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (garbage, "cannot be read: frame"),
        (other_version, "frame version 77 is unknown"),
        (an_engine_s_message, "Close goes from an engine"),
        (raising, "dies mid-stream"),
    ],
)
def test_bad_stream_is_left_and_made_anew(
    servicer: Misbehaving, client: GrpcDrafter, behave: Behave, reason: str
) -> None:
    servicer.behave = behave
    assert len(drafted(client, 3)) <= 1
    status = client.status()
    assert reason in status.reason
    assert status.counters["errors"] == 1
    servicer.behave = good
    recovers(client)
    assert client.status().counters["reconnects"] >= 1


def test_duplicated_chunks(servicer: Misbehaving, client: GrpcDrafter) -> None:
    def twice(one: DraftQuery) -> Iterator[draft_pb2.Frame]:
        first, second = part(one, 0, last=False), part(one, 1, last=True)
        yield framed(first, first, second, second)
        yield framed(first, second)

    servicer.behave = twice
    assert drafted(client, 3).tokens == (10, 11)
    assert drafted(client, 4).tokens == (10, 11)
    assert client.status().counters["unexpected"] >= 1


def test_reordered_chunks_give_a_shorter_draft(servicer: Misbehaving, client: GrpcDrafter) -> None:
    def backwards(one: DraftQuery) -> Iterator[draft_pb2.Frame]:
        yield framed(part(one, 1, last=False))
        yield framed(part(one, 0, last=False))
        yield framed(part(one, 2, last=True))

    servicer.behave = backwards
    assert drafted(client, 3).tokens == (10,)


def test_chunks_of_other_requests_and_lengths(servicer: Misbehaving, client: GrpcDrafter) -> None:
    def strange(one: DraftQuery) -> Iterator[draft_pb2.Frame]:
        yield framed(DraftChunk(request_id="stranger", base_len=one.base_len, tokens=(1,), parents=(-1,)))
        yield framed(DraftChunk(request_id=one.request_id, base_len=one.base_len + 5, tokens=(1,), parents=(-1,)))
        yield from good(one)

    servicer.behave = strange
    assert drafted(client, 3).tokens == (10, 11)
    assert client.status().counters["unexpected"] == 2


def test_reader_that_fails_in_an_unforeseen_way_goes_on(client: GrpcDrafter, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise KeyError("nobody thought of this")

    monkeypatch.setattr(grpc_client, "decode", bug)
    assert drafted(client, 3).tokens == ()
    assert "KeyError: 'nobody thought of this'" in client.status().reason
    assert client.status().counters["errors"] == 1
    recovers(client)
    assert client.status().up


def test_answer_without_an_end_stalls_and_recovers(servicer: Misbehaving, client: GrpcDrafter) -> None:
    def endless(one: DraftQuery) -> Iterator[draft_pb2.Frame]:
        yield framed(part(one, 0, last=False))

    servicer.behave = endless
    assert len(drafted(client, 3, seconds=0.1)) <= 1
    assert not client.status().up
    servicer.behave = good
    recovers(client)
    assert client.status().counters["stalls"] == 1
