"""Records that tests store: each is made from its number and version, so that what is read back can be told apart."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np

from cache_service.storage.record import Record
from cache_service.storage.shelf import Shelf
from protos.draft_files import CONTEXT, Namespace
from protos.draft_files import Path as DraftPath

WIDTH = 8
NAMESPACE = Namespace(tenant="ada", fingerprint="weights", tokenizer="words", feature="layer 20, mean", width=WIDTH)
BUDGET = 2**20  # the smallest


def digest_of(number: int) -> bytes:
    return blake2b(number.to_bytes(8, "little"), digest_size=16).digest()


def record(number: int, *, version: int = 0, path_tokens: int = 64) -> Record:
    """Every third has no feature, and one of 40 is shorter than a context."""
    context = tuple(number + index for index in range(CONTEXT if number % 40 else 5))
    feature = None if number % 3 == 0 else np.full(WIDTH, number % 100 + 0.5, np.float16)
    tokens = (version, number, *range(path_tokens - 2))
    return Record(
        digest=digest_of(number),
        length=len(context) + number,
        context=context,
        paths=(DraftPath(tokens=tokens, count=2), DraftPath(tokens=(number, 7, 8, 9))),
        feature=feature,
    )


def same(one: Record, other: Record) -> bool:
    """But for seq."""
    features = [None if item.feature is None else item.feature.tobytes() for item in (one, other)]
    bare = [replace(item, feature=None, seq=0) for item in (one, other)]
    fields = [(item.digest, item.length, item.context, item.paths) for item in bare]
    return features[0] == features[1] and fields[0] == fields[1]


def stored(shelf: Shelf, number: int) -> Record | None:
    """What a shelf has of a number."""
    row = shelf.row_of(digest_of(number))
    return None if row is None else shelf.record(row)


def version_of(found: Record) -> int:
    return found.paths[0].tokens[0]


def disk_bytes(directory: Path) -> int:
    """Of every file; one that is compacted away meanwhile has none."""
    total = 0
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total
