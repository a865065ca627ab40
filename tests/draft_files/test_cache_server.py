"""The cache service with a real server: addresses, health, reflection, bad input, unary calls, several clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from protos import cache_pb2, cache_pb2_grpc
from protos.cache_codec import pack_continuations, pack_credits, pack_questions, unpack_answers
from services.draft_files.cache_server import SERVICE, CacheServer
from tests.draft_files.conftest import Dial, Serve
from tests.draft_files.rounds import found, paths, until
from tests.fakes.draft_files import (
    NAMESPACE,
    PLAIN,
    POISON,
    ScriptedPretriever,
    continuation,
    credit,
    question,
)

Stub = cache_pb2_grpc.DraftFilesStub


@pytest.fixture
def pretriever() -> ScriptedPretriever:
    return ScriptedPretriever()


@pytest.fixture
def server(pretriever: ScriptedPretriever, serve: Serve, address: str) -> CacheServer:
    return serve(pretriever, address)


@pytest.fixture
def stub(server: CacheServer) -> Iterator[Stub]:
    with grpc.insecure_channel(server.address) as channel:
        yield Stub(channel)


def test_tcp_on_a_free_port_and_a_further_address(pretriever: ScriptedPretriever, serve: Serve, dial: Dial) -> None:
    server = serve(pretriever, "127.0.0.1:0")
    further = server.listen("127.0.0.1:0")
    assert not server.address.endswith(":0")
    assert further not in {server.address, "127.0.0.1:0"}
    pretriever.add([continuation(4, after=(1,))])
    for address in (server.address, further):
        client = dial(address)
        assert client.wait_until_up(30)
        assert paths(found(client, question(1))) == [[(4,)]]


def test_address_in_use_is_refused(pretriever: ScriptedPretriever, serve: Serve) -> None:
    server = serve(pretriever, "127.0.0.1:0")
    with pytest.raises(ValueError, match=r"cannot listen on '127\.0\.0\.1.*give a free host:port or unix:/path"):
        CacheServer(pretriever, server.address)


def test_health(server: CacheServer) -> None:
    with grpc.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICE):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_reflection(server: CacheServer) -> None:
    with grpc.insecure_channel(server.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        requests = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="paradraft.DraftFiles"),
        ]
        listed, described = stub.ServerReflectionInfo(iter(requests), timeout=30)
    assert {one.name for one in listed.list_services_response.service} >= {"paradraft.DraftFiles"}
    [file] = described.file_descriptor_response.file_descriptor_proto
    assert b"LookUps" in file


def test_unary_calls(pretriever: ScriptedPretriever, stub: Stub) -> None:
    added = stub.Add(pack_continuations([continuation(4, after=(1,)), continuation(4, after=(POISON,))]), timeout=30)
    assert (added.failed, added.error) == (1, f"RuntimeError: token {POISON}")
    assert pretriever.stored(1) == {(4,): 1}  # answered once it is there
    credited = stub.Credit(pack_credits([credit(1)]), timeout=30)
    assert (credited.failed, pretriever.earned) == (0, [credit(1)])
    answers = stub.LookUp(pack_questions([question(1), question(2), question(POISON)]), timeout=30)
    assert paths(unpack_answers(answers)) == [[(4,)], []]
    assert answers.error == f"RuntimeError: token {POISON}"


def test_stats_are_of_all_tenants_together(pretriever: ScriptedPretriever, stub: Stub) -> None:
    pretriever.add([continuation(4, after=(1,)), continuation(4, after=(2,))])
    pretriever.add([continuation(4, after=(1,), namespace=NAMESPACE)])
    stub.LookUp(pack_questions([question(1)]), timeout=30)
    stats = stub.Stats(cache_pb2.StatsRequest(), timeout=30)
    assert (stats.gauges["records"], stats.gauges["bytes"], stats.counters["hits"]) == (3, 2000, 8)
    assert dict(stats.namespaces) == {"exact": 2}
    assert stats.counters["questions"] == 1
    assert not any(tenant in str(stats) for tenant in (f'"{PLAIN.tenant}"', f'"{NAMESPACE.tenant}"'))


def bad_questions() -> cache_pb2.Questions:
    packed = pack_questions([question(1), question(2)])
    packed.questions[1].prefix.digest = b"abc"
    return packed


BAD_DIGEST = "questions[1].prefix.digest has 3 bytes; it must have 16"


def test_bad_input_ends_its_stream_and_no_other(
    pretriever: ScriptedPretriever, server: CacheServer, stub: Stub, dial: Dial
) -> None:
    client = dial(server.address)
    assert client.wait_until_up(30)
    assert len(found(client, question(1))) == 1
    answers = stub.LookUps(iter([pack_questions([question(1)]), bad_questions()]))
    assert len(next(answers).findings) == 1
    with pytest.raises(grpc.RpcError) as caught:
        next(answers)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert caught.value.details() == BAD_DIGEST  # type: ignore[attr-defined]
    assert server.stats().counters["bad_messages"] == 1
    assert len(found(client, question(1))) == 1
    assert client.status().counters["reconnects"] == 0


def test_bad_input_to_unary_calls(pretriever: ScriptedPretriever, stub: Stub) -> None:
    continuations = pack_continuations([continuation(4, after=(1,))])
    continuations.continuations[0].tokens.append(2**31)
    credits_ = pack_credits([credit(1)])
    credits_.credits[0].namespace = 5
    for call, message, reason in (
        (stub.LookUp, bad_questions(), BAD_DIGEST),
        (stub.Add, continuations, "continuations[0].tokens has the token 2147483648; it must be from 0 to 2147483647"),
        (stub.Credit, credits_, "credits[0].namespace is 5; namespaces has 1 items"),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(message, timeout=30)  # type: ignore[operator]
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
        assert caught.value.details() == reason  # type: ignore[attr-defined]
    assert not pretriever.stored(1)
    assert not pretriever.earned


def test_bytes_that_are_no_message_harm_nobody(server: CacheServer, stub: Stub) -> None:
    with grpc.insecure_channel(server.address) as channel:
        raw = channel.unary_unary(f"/{SERVICE}/LookUp", request_serializer=bytes, response_deserializer=bytes)
        with pytest.raises(grpc.RpcError):
            raw(b"\xff\xff\xff", timeout=30)
    assert len(stub.LookUp(pack_questions([question(1)]), timeout=30).findings) == 1


def test_findings_that_cannot_be_sent_are_told_and_hold_up_no_others(
    pretriever: ScriptedPretriever, stub: Stub
) -> None:
    pretriever.add([continuation(*range(65), after=(1,)), continuation(4, after=(2,))])  # a path that is too long
    answer = stub.LookUp(pack_questions([question(1), question(2)]), timeout=30)
    assert "findings[0].hits[0].paths[0].tokens has 65 items" in answer.error
    assert paths(unpack_answers(answer)) == [[(4,)]]


def test_two_clients_share_what_they_add(pretriever: ScriptedPretriever, server: CacheServer, dial: Dial) -> None:
    one, other = dial(server.address), dial(server.address)
    assert one.wait_until_up(30)
    assert other.wait_until_up(30)
    one.add([continuation(4, after=(1,))])
    other.add([continuation(5, after=(2,))])
    until(lambda: bool(pretriever.stored(1) and pretriever.stored(2)))
    assert paths(found(other, question(1), question(2))) == [[(4,)], [(5,)]]
    assert paths(found(one, question(1), question(2))) == [[(4,)], [(5,)]]


def test_questions_of_two_clients_are_looked_up_at_once(serve: Serve, dial: Dial, address: str) -> None:
    go = threading.Event()
    pretriever = ScriptedPretriever(lambda: go.wait(30))
    server = serve(pretriever, address)
    first, *others = (dial(server.address) for _ in range(3))
    assert all(client.wait_until_up(30) for client in (first, *others))
    first.ask([question(1)])
    until(lambda: pretriever.batches == [1])
    for client in others:
        client.ask([question(1), question(2)])
    until(lambda: server._calls._lanes.look_ups._num_waiting == 4)
    go.set()
    until(lambda: sum(len(client.answers()) for client in others) > 0)
    assert pretriever.batches == [1, 4]


def test_a_hung_pretriever_uses_up_no_threads(serve: Serve, dial: Dial, address: str) -> None:
    """More streams come and go than the server takes at a time, while nobody is answered."""
    go = threading.Event()
    pretriever = ScriptedPretriever(lambda: go.wait(30))
    server = CacheServer(pretriever, address, max_streams=2)
    server.start()
    client = dial(address, stall_s=0.01)

    def given_up(times: int) -> bool:
        client.ask([question(1)])
        return client.status().counters["stalls"] >= times

    try:
        assert client.wait_until_up(30)
        until(lambda: given_up(4))
        assert "no findings for" in client.status().reason or not client.status().up
        go.set()
        until(lambda: (client.ask([question(1)]), bool(client.answers()))[1])
        assert client.status().counters["reconnects"] >= 4
    finally:
        go.set()
        server.stop()
        server.stop()


def test_too_many_streams_are_refused(pretriever: ScriptedPretriever, dial: Dial, address: str) -> None:
    server = CacheServer(pretriever, address, max_streams=1)
    server.start()
    try:
        first, second = dial(address), None
        assert first.wait_until_up(30)
        second = dial(address)
        until(lambda: "RESOURCE_EXHAUSTED: too many streams" in second.status().reason)
        first.close()
        assert second.wait_until_up(30)
    finally:
        server.stop()
