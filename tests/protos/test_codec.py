"""Every message comes back as it went; nothing else comes back at all."""

from __future__ import annotations

import contextlib
import dataclasses
import string
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protos import codec
from protos.codec import Chunks, Close, Ending, FrameError, Message, Queries, decode, encode
from protos.messages import DraftChunk, DraftQuery
from protos.sampling_params import MAX_STOP_CHARS, MAX_STOP_IDS, MAX_STOPS, SamplingParams

names = st.text(string.printable, max_size=8)
tokens = st.lists(st.integers(0, 2**31 - 1), max_size=6).map(tuple)
lengths = st.integers(0, 2**31 - 1)
params = st.builds(
    SamplingParams,
    temperature=st.floats(0, 100),
    top_k=st.integers(-1, 1000),
    top_p=st.floats(0.01, 1),
    min_p=st.floats(0, 1),
    presence_penalty=st.floats(-2, 2),
    frequency_penalty=st.floats(-2, 2),
    repetition_penalty=st.floats(0.1, 10),
    logit_bias=st.dictionaries(st.integers(0, 2**31 - 1), st.floats(-100, 100), max_size=3),
    seed=st.none() | st.integers(0, 2**63 - 1),
    max_tokens=st.none(),
    min_tokens=st.integers(0, 100),
)
features = st.none() | st.integers(0, 3).map(lambda n: np.ones((n, 2), np.float16))
queries = st.builds(
    DraftQuery,
    request_id=names,
    base_len=lengths,
    tail=tokens,
    budget=lengths,
    params=params,
    tenant=names,
    prompt_len=lengths,
    features=features,
    method=st.none() | names,
)
chunks = st.builds(
    DraftChunk,
    request_id=names,
    base_len=lengths,
    offset=lengths,
    tokens=tokens,
    parents=st.lists(st.integers(-1, 100), max_size=6).map(tuple),
    survival=st.lists(st.floats(0, 1), max_size=6).map(tuple),
    source=names,
    last=st.booleans(),
    need_from=st.none() | lengths,
    error=names,
)
endings = st.builds(Ending, request_id=names, tail_start=lengths, tail=tokens)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Queries, queries=st.lists(queries, max_size=3).map(tuple)),
    st.builds(Chunks, chunks=st.lists(chunks, max_size=3).map(tuple)),
    st.builds(Close, endings=st.lists(endings, max_size=3).map(tuple)),
)


def plain(value: Any) -> Any:
    """The value with arrays as lists, so that `==` compares."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.tolist()
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


@given(messages)
def test_round_trip(message: Message) -> None:
    assert plain(decode(encode(message))) == plain(message)


@given(st.binary(max_size=64))
def test_random_bytes_raise_frame_errors_only(body: bytes) -> None:
    with pytest.raises(FrameError):
        decode(body)


@given(messages, st.data())
def test_damaged_frames_raise_frame_errors_or_are_messages(message: Message, data: st.DataObject) -> None:
    body = bytearray(encode(message))
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(FrameError):
        decode(bytes(body[:cut]))
    body[cut] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(FrameError):
        assert isinstance(decode(bytes(body)), Queries | Chunks | Close)


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=10) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=30,
)


@settings(max_examples=300)
@given(st.sampled_from(["queries", "chunks", "close", "other"]), json_like)
def test_any_other_content_raises_frame_errors(kind: str, content: object) -> None:
    try:
        message = decode(msgpack.packb([kind, content]))
    except FrameError:
        return
    assert plain(decode(encode(message))) == plain(message)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 2**32 - 1])
def test_unknown_version_is_named(version: int) -> None:
    with pytest.raises(FrameError, match=f"version {version} is unknown; this side speaks version 4"):
        decode(encode(Close(endings=())), version=version)


def chunk_with(**changed: object) -> bytes:
    fields = {field.name: getattr(DraftChunk(request_id="r", base_len=1), field.name) for field in FIELDS}
    return msgpack.packb(["chunks", [list((fields | changed).values())]])


FIELDS = dataclasses.fields(DraftChunk)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\xc1", "not msgpack"),
        (msgpack.packb({"a": 1}), "a frame must be a list of 2, got dict"),
        (msgpack.packb(["chunks"]), "a frame must be a list of 2, got a list of 1"),
        (msgpack.packb(["chunks", 3]), "items must be a list, got int"),
        (msgpack.packb(["pickle", []]), "kind 'pickle' is unknown"),
        (msgpack.packb([[], []]), "is unknown"),
        (msgpack.packb(["chunks", [[1]]]), "DraftChunk must be a list of 10, got a list of 1"),
        (msgpack.packb(["close", ["r"]]), "Ending must be a list of 3, got str"),
        (msgpack.packb(["close", [["r", 5]]]), "Ending must be a list of 3, got a list of 2"),
        (msgpack.packb(["close", [[1, 5, []]]]), r"Ending\.request_id must be text"),
        (msgpack.packb(["close", [["r", -1, []]]]), r"Ending\.tail_start must be an integer"),
        (msgpack.packb(["close", [["r", 5, None]]]), r"Ending\.tail must be a list of integers"),
        (msgpack.packb(["close", [["r", 5, [7, -1]]]]), r"Ending\.tail must be a list of integers"),
        (chunk_with(base_len=-1), "base_len must be an integer"),
        (chunk_with(base_len=True), "base_len must be an integer"),
        (chunk_with(tokens=[1.0]), "tokens must be a list of integers"),
        (chunk_with(tokens=[2**31]), "tokens must be a list of integers"),
        (chunk_with(parents=[-2]), "parents must be"),
        (chunk_with(survival=[float("nan")]), "survival must be"),
        (chunk_with(last=1), "last must be true or false"),
    ],
)
def test_error_names_what_was_wrong(body: bytes, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        decode(body)


def test_sampling_params_are_validated() -> None:
    query = DraftQuery(request_id="r", base_len=0, tail=(), budget=1, params=SamplingParams(temperature=0.5))
    kind, [fields] = msgpack.unpackb(encode(Queries(queries=(query,))))
    fields[4][0] = -1.0
    with pytest.raises(FrameError, match=r"temperature is -1\.0"):
        decode(msgpack.packb([kind, [fields]]))


def test_schemas_hold_every_field_in_order() -> None:
    for schema, record in ((codec._QUERY, DraftQuery), (codec._ENDING, Ending), (codec._CHUNK, DraftChunk)):
        assert list(schema) == [field.name for field in dataclasses.fields(record)]


def test_only_what_a_drafter_can_use_crosses() -> None:
    """How long a request's stops are is nothing to its drafter, so one request cannot make a frame unreadable."""
    stops = {"stop": ["x" * MAX_STOP_CHARS] * MAX_STOPS, "stop_token_ids": range(MAX_STOP_IDS)}
    ends = {"n": 2, "max_tokens": 90, "ignore_eos": True, "include_stop_str_in_output": True, "logprobs": 20}
    drawn = {"temperature": 0.5, "top_k": 3, "logit_bias": {7: -1.0}, "seed": 4, "min_tokens": 30}
    params = SamplingParams(**drawn, **ends, **stops)  # type: ignore[arg-type]
    body = encode(Queries(queries=(DraftQuery(request_id="r", base_len=0, tail=(), budget=1, params=params),)))
    assert len(body) < 200
    decoded = decode(body)
    assert isinstance(decoded, Queries)
    assert decoded.queries[0].params == SamplingParams(**drawn, max_tokens=None)  # type: ignore[arg-type]
    apart = {field.name for field in dataclasses.fields(SamplingParams)} - set(codec._PARAMS)
    assert apart == {*stops, *ends}


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    nested = b"\xdd\x00\x10\x00\x00" * 200  # arrays in arrays, each said to hold a million items
    with pytest.raises(FrameError):
        decode(nested)
    monkeypatch.setattr(codec, "MAX_BODY_BYTES", 100)
    with pytest.raises(FrameError, match="over the limit of 100"):
        decode(b"0" * 101)
    with pytest.raises(ValueError, match="over the limit of 100"):
        encode(Close(endings=(Ending(request_id="a" * 100),)))


def test_no_pickle_and_no_extension_types() -> None:
    with pytest.raises(FrameError):
        decode(msgpack.packb(["close", [msgpack.ExtType(5, b"x")]]))
