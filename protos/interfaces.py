"""The seams, with their invariants. Implementations inherit nothing: a class that has the verbs is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from protos.messages import DraftChunk, DraftQuery, Tokens


class Drafter(Protocol):
    """Proposes tokens. It can cost time, never change text.

    - Answers every query with chunks of which exactly one, the final one, has `last`; it may be empty.
    - Should propose at most `query.budget` tokens for a query; the engine cuts what exceeds it.
    - Holds state per request, synchronised by the query alone: truncate to `tail_start`, ingest the tail, draft. State
      shorter than `tail_start` is answered by an empty chunk with `need_from`.
    - A request is announced by a query of budget 0, whose tail is the prompt and which has no features. A drafter that
      needs features answers it with `need_from`, those that it still needs.
    - One call takes a bounded time. A tail too long for that is read over several calls: the answer is empty until it
      has been read, and the next query, with the next tail, goes on from there.
    - The same query twice gives the same answer, or more of it once the drafter has read on (a query may be resent
      after a lost answer).
    - `close` lets a request go; of an unknown one it does nothing. `tail` holds the tokens committed from position
      `tail_start` to the end of the request. A drafter that remembers answers, and holds at least `tail_start` tokens,
      truncates to these and ingests the tail first. An empty tail: nothing is known of the ending.
    """

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]: ...

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterStatus:
    """Health of a drafter as its engine sees it.

    `up`: it can be asked, and the last round it answered had no failure. `reason`: why it is not up. `counters`:
    monotone, by name (timeouts, errors, reconnects, ...).
    """

    up: bool
    reason: str = ""
    counters: dict[str, float] = field(default_factory=dict)


class AsyncDrafter(Protocol):
    """A Drafter at a distance: the transport seam. Called by one engine thread.

    - `send` and `close` return at once and never raise.
    - `collect` returns the chunks that have arrived, as soon as every query of the last `send` has its last chunk, and
      at the latest at `deadline` (time.monotonic). It never raises: a dead, slow or broken drafter gives fewer chunks,
      is counted in `status`, and is tried again by itself. A late chunk comes with a later `collect`.
    - `shutdown` ends it; idempotent.
    """

    def send(self, queries: Sequence[DraftQuery]) -> None: ...

    def collect(self, deadline: float) -> list[DraftChunk]: ...

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None: ...

    def status(self) -> DrafterStatus: ...

    def shutdown(self) -> None: ...
