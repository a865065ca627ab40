"""What is said of draft files, and the seam to them: prefixes asked for, hits found, continuations added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from protos.messages import Tokens

CONTEXT = 32  # tokens of a prefix that are kept: the longest n-gram
DIGEST_BYTES = 16
MIN_PATH = 4  # tokens of a continuation: fewer are not worth a record
MAX_PATH = 64  # tokens of a path
MAX_PATHS = 8  # of one prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """Whose drafts, of which model: nothing is found across namespaces.

    tenant: from the API key, never from a request's body. fingerprint: of the weights. tokenizer: hash of the
    tokenizer alone. feature: how a prefix feature is made, such as `layer 29, last`; "" where prefixes have none.
    width: numbers in a feature.
    """

    tenant: str
    fingerprint: str
    tokenizer: str
    feature: str = ""
    width: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prefix:
    """The text up to one place. tokens: its last CONTEXT tokens, fewer where it is shorter. length: of all of it.

    digest: DIGEST_BYTES that name all of it. feature: float32 [width], None where it is not known.
    """

    tokens: Tokens
    length: int
    digest: bytes
    feature: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """How did texts like this one go on?"""

    request_id: str
    namespace: Namespace
    prefix: Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """How a text went on after a prefix, at most MAX_PATH tokens. count: how many texts went on so."""

    tokens: Tokens
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A stored prefix that is like the one asked for. digest: names it. context: its last tokens. paths: the most
    frequent first. match_length: how many of the last tokens are the same, in steps of the n-grams.

    similarity: cosine of the features, None where either prefix has none.
    """

    digest: bytes
    context: Tokens
    paths: tuple[Path, ...]
    match_length: int
    similarity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The answer to a question; `length` is its prefix's. hits: the best first, none where nothing is like it."""

    request_id: str
    length: int
    hits: tuple[Hit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Continuation:
    """Committed text to remember: how it went on after a prefix."""

    namespace: Namespace
    prefix: Prefix
    tokens: Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """`accepted` tokens were drafted from the paths of a stored prefix, and the target agreed."""

    namespace: Namespace
    digest: bytes
    accepted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftFilesStatus:
    """up: can be asked. reason: why not. counters: monotone, by name."""

    up: bool
    reason: str = ""
    counters: dict[str, float] = field(default_factory=dict)


class DraftFiles(Protocol):
    """Draft files at a distance. Called by a drafter's thread; no call waits or raises.

    - `ask` starts look-ups; `answers` returns the findings that have come since, in any order. A question may stay
      without an answer where the files cannot be reached; asking again is harmless.
    - `add` and `credit` take effect some time later, or are dropped and counted where that is impossible.
    - `close` writes what is pending; idempotent.
    """

    def ask(self, questions: Sequence[Question]) -> None: ...

    def answers(self) -> list[Findings]: ...

    def add(self, continuations: Sequence[Continuation]) -> None: ...

    def credit(self, earned: Sequence[Credit]) -> None: ...

    def status(self) -> DraftFilesStatus: ...

    def close(self) -> None: ...
