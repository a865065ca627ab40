"""Codec: what crosses between a verifier and a drafter, as msgpack bytes. Never pickle.

A body is `[kind, items]`; an item is the list of its record's fields, in the order of its schema below. That order *is*
the version: whoever changes it raises `VERSION`. Bodies of another version are refused, not guessed at.

Of the sampling parameters only those cross that change what a drafter draws. How a text ends and what is reported of
it is the verifier's affair: on the drafter's side those fields have their defaults, and `max_tokens` is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgpack

from protos.arrays import pack_array, unpack_array
from protos.messages import DraftChunk, DraftQuery, Tokens
from protos.sampling_params import SamplingParams

VERSION = 4
MAX_BODY_BYTES = 64 * 2**20
MAX_ITEMS = 2**20
MAX_TEXT = 2**16
MAX_TOKEN = 2**31 - 1


class FrameError(ValueError):
    """A frame that cannot be understood; the message names what was wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """Verifier to drafter: draft for these, in one batch."""

    queries: tuple[DraftQuery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A request that is over, and the committed tokens from `tail_start` on; see `Drafter.close`."""

    request_id: str
    tail_start: int = 0
    tail: Tokens = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Verifier to drafter: these requests are over, let them go."""

    endings: tuple[Ending, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """Drafter to verifier: some of the answer to one or several `Queries`."""

    chunks: tuple[DraftChunk, ...]


Message = Queries | Close | Chunks
Schema = dict[str, Callable[[Any], Any]]
Record = TypeVar("Record", DraftQuery, DraftChunk, Ending, SamplingParams)


def encode(message: Message) -> bytes:
    """The body of a frame of `VERSION`; ValueError where an array has no wire form or the body would be too long."""
    match message:
        case Queries(queries=queries):
            content = ["queries", [_pack(_QUERY, query) for query in queries]]
        case Close(endings=endings):
            content = ["close", [_pack(_ENDING, ending) for ending in endings]]
        case Chunks(chunks=chunks):
            content = ["chunks", [_pack(_CHUNK, chunk) for chunk in chunks]]
    body: bytes = msgpack.packb(content)
    if len(body) > MAX_BODY_BYTES:
        raise ValueError(f"a frame of {len(body)} bytes is over the limit of {MAX_BODY_BYTES}; send fewer at once")
    return body


def decode(body: bytes, *, version: int = VERSION) -> Message:
    """The message in a body; FrameError for an unknown version and for anything malformed."""
    if version != VERSION:
        raise FrameError(f"frame version {version} is unknown; this side speaks version {VERSION}")
    if len(body) > MAX_BODY_BYTES:
        raise FrameError(f"frame of {len(body)} bytes is over the limit of {MAX_BODY_BYTES}")
    try:
        content = msgpack.unpackb(body, strict_map_key=False, **_LIMITS)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise FrameError(f"frame is not msgpack: {error}") from error
    kind, items = _list_of(content, 2, "a frame")
    if not isinstance(items, list):
        raise FrameError(f"frame items must be a list, got {type(items).__name__}")
    match kind:
        case "queries":
            return Queries(queries=tuple(_unpack(_QUERY, DraftQuery, item) for item in items))
        case "close":
            return Close(endings=tuple(_unpack(_ENDING, Ending, item) for item in items))
        case "chunks":
            return Chunks(chunks=tuple(_unpack(_CHUNK, DraftChunk, item) for item in items))
        case _:
            raise FrameError(f"frame kind {kind!r} is unknown; known: queries, close, chunks")


_LIMITS = {
    "max_array_len": MAX_ITEMS,
    "max_map_len": MAX_TEXT,
    "max_str_len": MAX_TEXT,
    "max_bin_len": MAX_BODY_BYTES,
    "max_ext_len": 0,
}


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("must be text")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_TOKEN:
        raise ValueError(f"must be an integer from 0 to {MAX_TOKEN}")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("must be true or false")
    return value


def _tokens(value: Any) -> Tokens:
    if not isinstance(value, list) or not all(type(token) is int and 0 <= token <= MAX_TOKEN for token in value):
        raise ValueError(f"must be a list of integers from 0 to {MAX_TOKEN}")
    return tuple(value)


def _parents(value: Any) -> Tokens:
    if not isinstance(value, list) or not all(type(node) is int and -1 <= node <= MAX_TOKEN for node in value):
        raise ValueError("must be a list of integers from -1")
    return tuple(value)


def _survival(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or not all(type(p) is float and 0 <= p <= 1 for p in value):
        raise ValueError("must be a list of floats from 0 to 1")
    return tuple(value)


def _biases(value: Any) -> Mapping[int, float]:
    if not isinstance(value, dict) or not all(type(token) is int for token in value):
        raise ValueError("must map token ids to biases")
    return value


def _plain(value: Any) -> Any:
    """Left to SamplingParams, which validates itself."""
    return value


def _optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _params(value: Any) -> SamplingParams:
    return _unpack(_PARAMS, SamplingParams, value, max_tokens=None)


_PARAMS: Schema = {
    "temperature": _plain,
    "top_k": _plain,
    "top_p": _plain,
    "min_p": _plain,
    "presence_penalty": _plain,
    "frequency_penalty": _plain,
    "repetition_penalty": _plain,
    "logit_bias": _biases,
    "seed": _plain,
    "min_tokens": _plain,
}
_QUERY: Schema = {
    "request_id": _text,
    "base_len": _integer,
    "tail": _tokens,
    "budget": _integer,
    "params": _params,
    "tenant": _text,
    "prompt_len": _integer,
    "features": _optional(unpack_array),
    "method": _optional(_text),
}
_ENDING: Schema = {
    "request_id": _text,
    "tail_start": _integer,
    "tail": _tokens,
}
_CHUNK: Schema = {
    "request_id": _text,
    "base_len": _integer,
    "offset": _integer,
    "tokens": _tokens,
    "parents": _parents,
    "survival": _survival,
    "source": _text,
    "last": _flag,
    "need_from": _optional(_integer),
    "error": _text,
}


def _pack(schema: Schema, record: object) -> list[Any]:
    return [_packed_value(getattr(record, name)) for name in schema]


def _packed_value(value: Any) -> Any:
    if isinstance(value, SamplingParams):
        return _pack(_PARAMS, value)
    if hasattr(value, "dtype"):
        return pack_array(value)
    return dict(value) if isinstance(value, Mapping) else value


def _unpack(schema: Schema, record: type[Record], item: object, **fixed: Any) -> Record:
    name = record.__name__
    values = _list_of(item, len(schema), name)
    fields = {
        field: _checked(schema[field], value, f"{name}.{field}") for field, value in zip(schema, values, strict=True)
    }
    try:
        return record(**fields, **fixed)
    except (ValueError, TypeError) as error:
        raise FrameError(f"{name}: {error}") from error


def _checked(check: Callable[[Any], Any], value: object, name: str) -> Any:
    try:
        return check(value)
    except FrameError:
        raise
    except ValueError as error:
        raise FrameError(f"{name} {error}") from error


def _list_of(value: object, size: int, name: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != size:
        got = f"a list of {len(value)}" if isinstance(value, list) else type(value).__name__
        raise FrameError(f"{name} must be a list of {size}, got {got}")
    return value
