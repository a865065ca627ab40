"""Records of draft files, and a pretriever that follows a script."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cache_service.storage.usage import NamespaceMetrics
from protos.draft_files import Continuation, Credit, Findings, Hit, Namespace, Path, Prefix, Question

WIDTH = 4
NAMESPACE = Namespace(tenant="a", fingerprint="f", tokenizer="t", feature="layer 1, mean", width=WIDTH)
PLAIN = Namespace(tenant="b", fingerprint="f", tokenizer="t")
POISON = 666  # a prefix with this token makes the pretriever raise


def digest_of(tokens: Sequence[int]) -> bytes:
    """16 bytes that name a short text."""
    return bytes(token % 256 for token in tokens).rjust(16, b"\0")[-16:]


def prefix(*tokens: int, feature: NDArray[np.float32] | None = None) -> Prefix:
    """A text of these tokens."""
    return Prefix(tokens=tokens, length=len(tokens), digest=digest_of(tokens), feature=feature)


def question(*tokens: int, request_id: str = "r", namespace: Namespace = PLAIN) -> Question:
    """How did texts like this one go on?"""
    return Question(request_id=request_id, namespace=namespace, prefix=prefix(*tokens))


def continuation(*tokens: int, after: tuple[int, ...], namespace: Namespace = PLAIN) -> Continuation:
    """`tokens` came after the text `after`."""
    return Continuation(namespace=namespace, prefix=prefix(*after), tokens=tokens)


def credit(*tokens: int, accepted: int = 3, namespace: Namespace = PLAIN) -> Credit:
    """For the prefix of these tokens."""
    return Credit(namespace=namespace, digest=digest_of(tokens), accepted=accepted)


class ScriptedPretriever:
    """Finds a prefix that was added by its digest alone, in its namespace. `before` runs before each look-up."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.before = before
        self.batches: list[int] = []  # questions of each look_up
        self.earned: list[Credit] = []
        self._paths: dict[tuple[Namespace, bytes], dict[tuple[int, ...], int]] = {}
        self._lock = threading.Lock()

    def look_up(self, questions: Sequence[Question]) -> list[Findings]:
        """In the questions' order."""
        self.batches.append(len(questions))
        self.before()
        self._refuse(one.prefix for one in questions)
        return [self._find(one) for one in questions]

    def add(self, continuations: Sequence[Continuation]) -> None:
        """Counts the same continuation."""
        self._refuse(one.prefix for one in continuations)
        with self._lock:
            for one in continuations:
                paths = self._paths.setdefault((one.namespace, one.prefix.digest), {})
                paths[one.tokens] = paths.get(one.tokens, 0) + 1

    def credit(self, earned: Sequence[Credit]) -> None:
        """Kept as they came."""
        self.earned.extend(earned)

    def metrics(self) -> dict[Namespace, NamespaceMetrics]:
        """Of each namespace with records; all numbers but those are made up."""
        with self._lock:
            records = Counter(namespace for namespace, _ in self._paths)
        made_up = {"num_bytes": 1000, "index_bytes": 100, "kind": "exact", "lookups": 5, "hits": 4, "added": 3}
        return {
            namespace: NamespaceMetrics(records=count, short=2, accepted=1, **made_up)
            for namespace, count in records.items()
        }

    def stored(self, *tokens: int, namespace: Namespace = PLAIN) -> dict[tuple[int, ...], int]:
        """The paths after a prefix, with their counts."""
        with self._lock:
            return dict(self._paths.get((namespace, digest_of(tokens)), {}))

    def _find(self, one: Question) -> Findings:
        stored = self.stored(*one.prefix.tokens, namespace=one.namespace)
        paths = tuple(Path(tokens=tokens, count=count) for tokens, count in stored.items())
        hit = Hit(
            digest=one.prefix.digest,
            context=one.prefix.tokens,
            paths=paths,
            match_length=len(one.prefix.tokens),
            similarity=None if one.prefix.feature is None else float(one.prefix.feature[0]),
        )
        return Findings(request_id=one.request_id, length=one.prefix.length, hits=(hit,) if paths else ())

    def _refuse(self, prefixes: Iterable[Prefix]) -> None:
        for one in prefixes:
            if POISON in one.tokens:
                raise RuntimeError(f"token {POISON}")
