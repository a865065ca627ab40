"""Cache fields: what the messages of cache.proto are made of, checked; a FieldError names the field and its value.

Full names of fields are put together where a check fails: a look-up has no time for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from protos import cache_pb2
from protos.draft_files import CONTEXT, DIGEST_BYTES, MAX_PATH, MAX_PATHS, Hit, Namespace, Path, Prefix
from protos.field_error import FieldError
from protos.messages import Tokens

MAX_ITEMS = 1024  # of one message
MAX_HITS = 64  # of one question
MAX_TEXT = 4096  # characters of a name
MAX_WIDTH = 2**16 - 1  # what a draft file has room for
MAX_NUMBER = 2**31 - 1  # token ids, lengths, counts

Item = TypeVar("Item")
Made = TypeVar("Made")


class PackedNamespaces:
    """Those of one message, each once."""

    def __init__(self) -> None:
        self._places: dict[Namespace, int] = {}
        self.messages: list[cache_pb2.Namespace] = []

    def place(self, namespace: Namespace) -> int:
        """Its index in `messages`."""
        known = self._places.get(namespace)
        if known is not None:
            return known
        self.messages.append(
            cache_pb2.Namespace(
                tenant=checked_text(namespace.tenant, "namespace.tenant"),
                fingerprint=checked_text(namespace.fingerprint, "namespace.fingerprint"),
                tokenizer=checked_text(namespace.tokenizer, "namespace.tokenizer"),
                feature=checked_text(namespace.feature, "namespace.feature"),
                width=checked_number(namespace.width, "namespace.width", MAX_WIDTH),
            )
        )
        self._places[namespace] = len(self._places)
        return len(self._places) - 1


def unpack_namespaces(packed: Sequence[cache_pb2.Namespace]) -> list[Namespace]:
    """Those of one message."""
    return each("namespaces", packed, _unpack_namespace)


def namespace_at(namespaces: Sequence[Namespace], place: int) -> Namespace:
    """That of an item."""
    if place < len(namespaces):
        return namespaces[place]
    raise FieldError("namespace", f"namespace is {place}; namespaces has {len(namespaces)} items")


def pack_prefix(prefix: Prefix, namespace: Namespace) -> cache_pb2.Prefix:
    """Its feature as float32."""
    try:
        return cache_pb2.Prefix(
            tokens=checked_tokens(prefix.tokens, CONTEXT, "tokens"),
            length=_checked_length(prefix.length, len(prefix.tokens)),
            digest=checked_digest(prefix.digest),
            feature=b"" if prefix.feature is None else _pack_feature(prefix.feature, namespace),
        )
    except FieldError as error:
        raise _inside("prefix", error) from None


def unpack_prefix(packed: cache_pb2.Prefix, namespace: Namespace) -> Prefix:
    """Its feature is read-only where it came as float32."""
    try:
        tokens = unpack_tokens(packed.tokens, CONTEXT, "tokens")
        return Prefix(
            tokens=tokens,
            length=_checked_length(packed.length, len(tokens)),
            digest=checked_digest(packed.digest),
            feature=_unpack_feature(packed.feature, namespace.width) if packed.feature else None,
        )
    except FieldError as error:
        raise _inside("prefix", error) from None


def pack_hit(hit: Hit) -> cache_pb2.Hit:
    """Its similarity as float32."""
    return cache_pb2.Hit(
        digest=checked_digest(hit.digest),
        context=checked_tokens(hit.context, CONTEXT, "context"),
        paths=each("paths", hit.paths, _pack_path, MAX_PATHS),
        match_length=checked_number(hit.match_length, "match_length"),
        similarity=hit.similarity,
    )


def unpack_hit(packed: cache_pb2.Hit) -> Hit:
    """See pack_hit."""
    return Hit(
        digest=checked_digest(packed.digest),
        context=unpack_tokens(packed.context, CONTEXT, "context"),
        paths=tuple(each("paths", packed.paths, _unpack_path, MAX_PATHS)),
        match_length=checked_number(packed.match_length, "match_length"),
        similarity=packed.similarity if packed.HasField("similarity") else None,
    )


def each(name: str, items: Sequence[Item], make: Callable[[Item], Made], most: int = MAX_ITEMS) -> list[Made]:
    """What `make` makes of each of at most so many items; a FieldError in one of them tells its place."""
    made: list[Made] = []
    _check_few(len(items), most, name)
    try:
        for item in items:
            made.append(make(item))  # noqa: PERF401  the error needs to know how far it came
    except FieldError as error:
        raise _inside(f"{name}[{len(made)}]", error) from None
    return made


def checked_text(text: str, field: str) -> str:
    """A name or an id."""
    if len(text) > MAX_TEXT:
        raise FieldError(field, f"{field} has {len(text)} characters; it must have at most {MAX_TEXT}")
    return text


def checked_number(number: int, field: str, most: int = MAX_NUMBER) -> int:
    """A length, a count or a width."""
    if not 0 <= number <= most:
        raise FieldError(field, f"{field} is {number}; it must be from 0 to {most}")
    return number


def checked_digest(digest: bytes) -> bytes:
    """What names a prefix."""
    if len(digest) != DIGEST_BYTES:
        raise FieldError("digest", f"digest has {len(digest)} bytes; it must have {DIGEST_BYTES}")
    return digest


def checked_tokens(tokens: Tokens, most: int, field: str) -> Tokens:
    """Token ids."""
    _check_few(len(tokens), most, field)
    if tokens and not 0 <= min(tokens) <= max(tokens) <= MAX_NUMBER:
        bad = next(token for token in tokens if not 0 <= token <= MAX_NUMBER)
        raise FieldError(field, f"{field} has the token {bad}; it must be from 0 to {MAX_NUMBER}")
    return tokens


def unpack_tokens(packed: Sequence[int], most: int, field: str) -> Tokens:
    """The same of a message, whose numbers are none below 0."""
    _check_few(len(packed), most, field)
    tokens = tuple(packed[:])  # one call for all of them; an iterator would make one for each
    if tokens and max(tokens) > MAX_NUMBER:
        raise FieldError(field, f"{field} has the token {max(tokens)}; it must be from 0 to {MAX_NUMBER}")
    return tokens


def _check_few(count: int, most: int, field: str) -> None:
    if count > most:
        raise FieldError(field, f"{field} has {count} items; it must have at most {most}")


def _inside(name: str, error: FieldError) -> FieldError:
    return FieldError(f"{name}.{error.field}", f"{name}.{error}")


def _unpack_namespace(packed: cache_pb2.Namespace) -> Namespace:
    return Namespace(
        tenant=checked_text(packed.tenant, "tenant"),
        fingerprint=checked_text(packed.fingerprint, "fingerprint"),
        tokenizer=checked_text(packed.tokenizer, "tokenizer"),
        feature=checked_text(packed.feature, "feature"),
        width=checked_number(packed.width, "width", MAX_WIDTH),
    )


def _pack_path(path: Path) -> cache_pb2.Path:
    return cache_pb2.Path(
        tokens=checked_tokens(path.tokens, MAX_PATH, "tokens"), count=checked_number(path.count, "count")
    )


def _unpack_path(packed: cache_pb2.Path) -> Path:
    tokens = unpack_tokens(packed.tokens, MAX_PATH, "tokens")
    return Path(tokens=tokens, count=checked_number(packed.count, "count"))


def _checked_length(length: int, num_tokens: int) -> int:
    if checked_number(length, "length") < num_tokens:
        raise FieldError("length", f"length is {length}; it must be at least its {num_tokens} tokens")
    return length


def _pack_feature(feature: NDArray[np.float32], namespace: Namespace) -> bytes:
    if feature.shape != (namespace.width,):
        raise FieldError("feature", f"feature has shape {list(feature.shape)}; it must be [{namespace.width}]")
    return _finite(np.ascontiguousarray(feature, dtype="<f4")).tobytes()


def _unpack_feature(data: bytes, width: int) -> NDArray[np.float32]:
    if len(data) not in {2 * width, 4 * width}:
        needed = f"{width} numbers need {2 * width} as float16 or {4 * width} as float32"
        raise FieldError("feature", f"feature has {len(data)} bytes; {needed}")
    feature = np.frombuffer(data, dtype="<f4" if len(data) == 4 * width else "<f2")
    return _finite(feature.astype(np.float32, copy=False))


def _finite(feature: NDArray[np.float32]) -> NDArray[np.float32]:
    finite = np.isfinite(feature)
    if not finite.all():
        raise FieldError("feature", f"feature has the number {feature[~finite][0]}; its numbers must be finite")
    return feature
