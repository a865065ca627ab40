"""Record: one stored prefix with the paths that followed it, and the bytes it has in a draft file.

Bytes, little endian: `_FIXED`; the context as int32 [CONTEXT], right-aligned behind -1; the feature as float16
[width]; a uint32 count for each path; the paths' tokens as int32. Context and feature stand at a fixed place, so that
those of many records are gathered without decoding one.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cache_service.storage.paths import MOST_TEXTS
from protos.draft_files import CONTEXT, DIGEST_BYTES, MAX_PATH, MAX_PATHS, Path
from protos.messages import Tokens

_FIXED = struct.Struct("<Q16sIHBB8B")  # seq, digest, length, width, tokens of context, paths, tokens of each path
DIGEST_AT = 8
CONTEXT_AT = _FIXED.size
CONTEXT_BYTES = 4 * CONTEXT
FEATURE_AT = CONTEXT_AT + CONTEXT_BYTES
MAX_COUNT = 2**32 - 1  # what a uint32 holds
HEAD = np.dtype(
    [
        ("seq", "<i8"),
        ("digest", "V16"),
        ("length", "<u4"),
        ("width", "<u2"),
        ("num_context", "u1"),
        ("num_paths", "u1"),
        ("path_lengths", "u1", (MAX_PATHS,)),
    ]
)  # `_FIXED`, of many records at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """digest: DIGEST_BYTES that name the whole prefix, of `length` tokens. context: its last tokens, at most CONTEXT.

    paths: 1 to MAX_PATHS. feature: float16 [width]. seq: of two records with one digest, the one with the higher seq
    holds; a shelf gives it, in microseconds since 1970.
    """

    digest: bytes
    length: int
    context: Tokens
    paths: tuple[Path, ...]
    feature: NDArray[np.float16] | None = None
    seq: int = 0


def encode(record: Record) -> bytes:
    """ValueError names the field that has no place in a draft file."""
    _check(record)
    feature = b"" if record.feature is None else record.feature.astype("<f2", copy=False).tobytes()
    lengths = [len(path.tokens) for path in record.paths]
    fixed = _FIXED.pack(
        record.seq,
        record.digest,
        record.length,
        len(feature) // 2,
        len(record.context),
        len(lengths),
        *lengths,
        *(0 for _ in range(MAX_PATHS - len(lengths))),
    )
    context = _pack_tokens((-1,) * (CONTEXT - len(record.context)) + record.context)
    counts = struct.pack(f"<{len(lengths)}I", *(path.count for path in record.paths))
    tokens = b"".join(_pack_tokens(path.tokens) for path in record.paths)
    return b"".join((fixed, context, feature, counts, tokens))


def decode(content: bytes | memoryview) -> Record:
    """The opposite of `encode`; ValueError says what is wrong."""
    if len(content) < FEATURE_AT:
        raise ValueError(f"a record of {len(content)} bytes is cut: its fixed part alone has {FEATURE_AT}")
    seq, digest, length, width, num_context, num_paths, *lengths = _FIXED.unpack_from(content)
    lengths = lengths[:num_paths]
    counts_at = FEATURE_AT + 2 * width
    tokens_at = counts_at + 4 * num_paths
    expected = tokens_at + 4 * sum(lengths)
    if len(content) != expected or num_context > CONTEXT or not 0 < num_paths <= MAX_PATHS:
        raise ValueError(
            f"a record of {len(content)} bytes says that it has {expected}, {num_context} tokens of context and"
            f" {num_paths} paths"
        )
    context = struct.unpack_from(f"<{CONTEXT}i", content, CONTEXT_AT)[CONTEXT - num_context :]
    counts = struct.unpack_from(f"<{num_paths}I", content, counts_at)
    paths = []
    for count, size in zip(counts, lengths, strict=True):
        paths.append(Path(tokens=struct.unpack_from(f"<{size}i", content, tokens_at), count=min(count, MOST_TEXTS)))
        tokens_at += 4 * size
    feature = np.frombuffer(content, "<f2", width, FEATURE_AT).copy() if width else None
    return Record(digest=digest, length=length, context=context, paths=tuple(paths), feature=feature, seq=seq)


def well_formed(heads: NDArray[np.void], sizes: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
    """Which records, of `sizes` bytes and with these HEADs, can be decoded and have features of `width` or none."""
    paths, lengths, widths = heads["num_paths"], heads["path_lengths"], heads["width"].astype(np.int64)
    expected = FEATURE_AT + 2 * widths + 4 * (paths + lengths.sum(axis=1, dtype=np.int64))
    last = np.take_along_axis(lengths, np.clip(paths[:, None].astype(np.int64) - 1, 0, MAX_PATHS - 1), axis=1)[:, 0]
    right: NDArray[np.bool_] = (paths > 0) & (paths <= MAX_PATHS) & (heads["num_context"] <= CONTEXT)
    right &= (sizes == expected) & ((widths == 0) | (widths == width))
    right &= (last > 0) & ((lengths > 0).sum(axis=1) == paths)
    return right


def newest(digests: NDArray[np.void], versions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indexes of the entry of each digest that has the highest version; in the order of versions."""
    if not len(digests):
        return np.zeros(0, np.int64)
    halves = _halves(digests)
    order = np.lexsort((versions, halves[:, 1], halves[:, 0]))
    last = np.ones(len(order), bool)
    last[:-1] = (halves[order[1:]] != halves[order[:-1]]).any(axis=1)
    kept = order[last]
    return kept[np.argsort(versions[kept], kind="stable")]


def match(digests: NDArray[np.void], among: NDArray[np.void]) -> NDArray[np.int64]:
    """Where each digest stands in `among`, which has none twice; -1 where it does not."""
    if not len(among):
        return np.full(len(digests), -1)
    keys = _halves(among)[:, 0]
    order = np.argsort(keys)
    places = np.minimum(np.searchsorted(keys[order], _halves(digests)[:, 0]), len(among) - 1)
    found = order[places]
    return np.where((_halves(among)[found] == _halves(digests)).all(axis=1), found, -1)


def _halves(digests: NDArray[np.void]) -> NDArray[np.uint64]:
    """[n, 2]"""
    return np.ascontiguousarray(digests).view("<u8").reshape(-1, 2)


def _check(record: Record) -> None:
    if len(record.digest) != DIGEST_BYTES:
        raise ValueError(f"digest of {len(record.digest)} bytes: it must have {DIGEST_BYTES}")
    if not len(record.context) <= CONTEXT or not len(record.context) <= record.length <= MAX_COUNT:
        raise ValueError(
            f"context of {len(record.context)} tokens of a prefix of {record.length}: keep the last {CONTEXT} at most"
        )
    if min(record.context, default=0) < 0 or any(min(path.tokens, default=0) < 0 for path in record.paths):
        raise ValueError("a negative token: the tokens of a record are the target's")
    if not 1 <= len(record.paths) <= MAX_PATHS:
        raise ValueError(f"{len(record.paths)} paths: a record has 1 to {MAX_PATHS}")
    for path in record.paths:
        if not 1 <= len(path.tokens) <= MAX_PATH:
            raise ValueError(f"a path of {len(path.tokens)} tokens: it must have 1 to {MAX_PATH}")
        if not 1 <= path.count <= MOST_TEXTS:
            raise ValueError(f"a path's count of {path.count}: it must be 1 to {MOST_TEXTS}")
    _check_feature(record.feature)


def _check_feature(feature: NDArray[np.float16] | None) -> None:
    if feature is None:
        return
    if feature.dtype != np.float16 or feature.ndim != 1 or not 0 < len(feature) < 2**16:
        raise ValueError(f"a feature of type {feature.dtype} and shape {feature.shape}: it must be float16 [width]")
    if not np.isfinite(feature).all():
        raise ValueError("a feature with an infinite or undefined number: scale it before it becomes float16")


def _pack_tokens(tokens: Tokens) -> bytes:
    try:
        content = array("i", tokens)
    except (OverflowError, TypeError):
        raise ValueError(f"tokens {tokens}: each must be an integer below 2**31") from None
    return np.asarray(content, "<i4").tobytes()
