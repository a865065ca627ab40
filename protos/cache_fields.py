"""Cache fields: what the messages of cache.proto are made of, checked; a FieldError names the field and its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from protos import cache_pb2
from protos.draft_files import CONTEXT, MAX_PATH, MAX_PATHS, Hit, Namespace, Path, Prefix
from protos.field_error import FieldError
from protos.messages import Tokens

MAX_ITEMS = 1024  # of one message
MAX_HITS = 64  # of one question
MAX_TEXT = 4096  # characters of a name
MAX_WIDTH = 2**16
MAX_NUMBER = 2**31 - 1  # token ids, lengths, counts
DIGEST_BYTES = 16

Item = TypeVar("Item")


class Names:
    """The namespaces of one message, each once."""

    def __init__(self) -> None:
        self._places: dict[Namespace, int] = {}
        self.packed: list[cache_pb2.Namespace] = []

    def place(self, namespace: Namespace, field: str) -> int:
        """Its index in `packed`."""
        known = self._places.get(namespace)
        if known is not None:
            return known
        _check_namespace(namespace, f"{field}.namespace")
        self.packed.append(
            cache_pb2.Namespace(
                tenant=namespace.tenant,
                fingerprint=namespace.fingerprint,
                tokenizer=namespace.tokenizer,
                feature=namespace.feature,
                width=namespace.width,
            )
        )
        self._places[namespace] = len(self._places)
        return len(self._places) - 1


def unpack_namespaces(messages: Sequence[cache_pb2.Namespace]) -> list[Namespace]:
    """Those of one message."""
    namespaces = []
    for place, one in enumerate(few(messages, "namespaces")):
        namespace = Namespace(
            tenant=one.tenant,
            fingerprint=one.fingerprint,
            tokenizer=one.tokenizer,
            feature=one.feature,
            width=one.width,
        )
        _check_namespace(namespace, f"namespaces[{place}]")
        namespaces.append(namespace)
    return namespaces


def _check_namespace(namespace: Namespace, field: str) -> None:
    for name in ("tenant", "fingerprint", "tokenizer", "feature"):
        checked_text(getattr(namespace, name), f"{field}.{name}")
    checked_number(namespace.width, f"{field}.width", MAX_WIDTH)


def namespace_at(namespaces: Sequence[Namespace], place: int, field: str) -> Namespace:
    """Of the item that `field` names."""
    if place < len(namespaces):
        return namespaces[place]
    raise FieldError(f"{field}.namespace", f"{field}.namespace is {place}; namespaces has {len(namespaces)} items")


def pack_prefix(prefix: Prefix, namespace: Namespace, packed: cache_pb2.Prefix, field: str) -> None:
    """Into `packed`; the feature as float32."""
    _check_length(prefix, field)
    packed.tokens.extend(checked_tokens(prefix.tokens, CONTEXT, f"{field}.tokens"))
    packed.length = prefix.length
    packed.digest = checked_digest(prefix.digest, f"{field}.digest")
    if prefix.feature is not None:
        feature = np.ascontiguousarray(prefix.feature, dtype="<f4")
        packed.feature = _checked_feature(feature, namespace, f"{field}.feature").tobytes()


def unpack_prefix(packed: cache_pb2.Prefix, namespace: Namespace, field: str) -> Prefix:
    """Its feature is read-only where it came as float32."""
    prefix = Prefix(
        tokens=checked_tokens(tuple(packed.tokens), CONTEXT, f"{field}.tokens"),
        length=packed.length,
        digest=checked_digest(packed.digest, f"{field}.digest"),
        feature=_unpack_feature(packed.feature, namespace, f"{field}.feature"),
    )
    _check_length(prefix, field)
    return prefix


def pack_hit(hit: Hit, packed: cache_pb2.Hit, field: str) -> None:
    """Into `packed`."""
    packed.digest = checked_digest(hit.digest, f"{field}.digest")
    packed.context.extend(checked_tokens(hit.context, CONTEXT, f"{field}.context"))
    packed.match_length = checked_number(hit.match_length, f"{field}.match_length")
    if hit.similarity is not None:
        packed.similarity = hit.similarity
    for place, path in enumerate(few(hit.paths, f"{field}.paths", MAX_PATHS)):
        one = packed.paths.add()
        one.tokens.extend(checked_tokens(path.tokens, MAX_PATH, f"{field}.paths[{place}].tokens"))
        one.count = checked_number(path.count, f"{field}.paths[{place}].count")


def unpack_hit(packed: cache_pb2.Hit, field: str) -> Hit:
    """Similarity is as exact as float32."""
    return Hit(
        digest=checked_digest(packed.digest, f"{field}.digest"),
        context=checked_tokens(tuple(packed.context), CONTEXT, f"{field}.context"),
        paths=tuple(
            Path(
                tokens=checked_tokens(tuple(path.tokens), MAX_PATH, f"{field}.paths[{place}].tokens"),
                count=checked_number(path.count, f"{field}.paths[{place}].count"),
            )
            for place, path in enumerate(few(packed.paths, f"{field}.paths", MAX_PATHS))
        ),
        match_length=checked_number(packed.match_length, f"{field}.match_length"),
        similarity=packed.similarity if packed.HasField("similarity") else None,
    )


def few(items: Sequence[Item], field: str, most: int = MAX_ITEMS) -> Sequence[Item]:
    """The items, which are not too many."""
    if len(items) > most:
        raise FieldError(field, f"{field} has {len(items)} items; it must have at most {most}")
    return items


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


def checked_digest(digest: bytes, field: str) -> bytes:
    """What names a prefix."""
    if len(digest) != DIGEST_BYTES:
        raise FieldError(field, f"{field} has {len(digest)} bytes; it must have {DIGEST_BYTES}")
    return digest


def checked_tokens(tokens: Tokens, most: int, field: str) -> Tokens:
    """Token ids."""
    few(tokens, field, most)
    if tokens and not 0 <= min(tokens) <= max(tokens) <= MAX_NUMBER:
        bad = next(token for token in tokens if not 0 <= token <= MAX_NUMBER)
        raise FieldError(field, f"{field} has the token {bad}; it must be from 0 to {MAX_NUMBER}")
    return tokens


def _check_length(prefix: Prefix, field: str) -> None:
    checked_number(prefix.length, f"{field}.length")
    if prefix.length < len(prefix.tokens):
        raise FieldError(
            f"{field}.length", f"{field}.length is {prefix.length}; it must be at least its {len(prefix.tokens)} tokens"
        )


def _unpack_feature(data: bytes, namespace: Namespace, field: str) -> NDArray[np.float32] | None:
    if not data:
        return None
    width = namespace.width
    if len(data) not in {2 * width, 4 * width}:
        raise FieldError(
            field,
            f"{field} has {len(data)} bytes; {width} numbers need {2 * width} as float16 or {4 * width} as float32",
        )
    feature = np.frombuffer(data, dtype="<f4" if len(data) == 4 * width else "<f2")
    return _checked_feature(feature.astype(np.float32, copy=False), namespace, field)


def _checked_feature(feature: NDArray[np.float32], namespace: Namespace, field: str) -> NDArray[np.float32]:
    if feature.shape != (namespace.width,):
        raise FieldError(field, f"{field} has shape {list(feature.shape)}; it must be [{namespace.width}]")
    if not np.isfinite(feature).all():
        bad = feature[~np.isfinite(feature)][0]
        raise FieldError(field, f"{field} has the number {bad}; its numbers must be finite")
    return feature
