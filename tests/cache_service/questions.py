"""Questions to a pretriever, and continuations for it, in few words."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from cache_service.search.pretriever import Pretriever
from protos.draft_files import Continuation, Findings, Namespace, Prefix, Question

HOME = Namespace(tenant="a", fingerprint="f", tokenizer="t", feature="layer 1, mean", width=4)
TEXT = tuple(range(100, 140))
EAST, NORTH, NORTH_EAST = ([1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0])


def prefix(tokens: tuple[int, ...], feature: list[float] | None = None) -> Prefix:
    return Prefix(
        tokens=tokens[-32:],
        length=len(tokens),
        digest=blake2b(str(tokens).encode(), digest_size=16).digest(),
        feature=None if feature is None else np.array(feature, np.float32),
    )


def add(
    to: Pretriever,
    tokens: tuple[int, ...],
    after: tuple[int, ...],
    feature: list[float] | None = None,
    namespace: Namespace = HOME,
) -> None:
    to.add([Continuation(namespace=namespace, prefix=prefix(tokens, feature), tokens=after)])


def ask(
    of: Pretriever, tokens: tuple[int, ...], feature: list[float] | None = None, namespace: Namespace = HOME
) -> Findings:
    (found,) = of.look_up([Question(request_id="r", namespace=namespace, prefix=prefix(tokens, feature))])
    return found


def continuations(found: Findings) -> list[tuple[int, ...]]:
    return [hit.paths[0].tokens for hit in found.hits]
