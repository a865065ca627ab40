"""PretrieverLanes: a pretriever for any number of callers, none of which waits: look-ups, additions, credits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from cache_service.storage.usage import NamespaceMetrics
from protos.draft_files import Continuation, Credit, Findings, Namespace, Question
from services.draft_files.lane import Lane

MAX_QUESTIONS = 1024
MAX_CONTINUATIONS = 8192
MAX_CREDITS = 8192

Item = TypeVar("Item")


class Pretriever(Protocol):
    """What is asked of `cache_service.search.pretriever.Pretriever`: findings are in the questions' order.

    Each verb is called by a thread of its own.
    """

    def look_up(self, questions: Sequence[Question]) -> list[Findings]: ...

    def add(self, continuations: Sequence[Continuation]) -> None: ...

    def credit(self, earned: Sequence[Credit]) -> None: ...

    def metrics(self) -> Mapping[Namespace, NamespaceMetrics]: ...


class PretrieverLanes:
    """Look-ups have a lane of their own: an addition waits for the disk, and questions must not wait for additions."""

    def __init__(self, pretriever: Pretriever) -> None:
        self._pretriever = pretriever
        self.look_ups = Lane(pretriever.look_up, name="draft-files-look-up", limit=MAX_QUESTIONS)
        self.additions = Lane(_each(pretriever.add), name="draft-files-add", limit=MAX_CONTINUATIONS)
        self.credits = Lane(_each(pretriever.credit), name="draft-files-credit", limit=MAX_CREDITS)

    @property
    def reason(self) -> str:
        """How look-ups fail now, empty where they do not."""
        return self.look_ups.reason

    @property
    def counters(self) -> dict[str, float]:
        """Monotone, as protos.draft_files.DraftFilesStatus has them; all of them, from the start."""
        lanes = {
            "questions": self.look_ups.counters,
            "additions": self.additions.counters,
            "credits": self.credits.counters,
        }
        done = {name: lane["done"] for name, lane in lanes.items()}
        dropped = {f"dropped_{name}": lane["dropped"] for name, lane in lanes.items()}
        return {**done, **dropped, "errors": sum(lane["errors"] for lane in lanes.values())}

    def close(self, timeout_s: float) -> bool:
        """Does what waits, for at most so long; True where it was done in time. Idempotent."""
        deadline = time.monotonic() + timeout_s
        closing = (self.look_ups.close, self.additions.close, self.credits.close)
        closed = [close(max(deadline - time.monotonic(), 0)) for close in closing]
        return all(closed)


def _each(work: Callable[[Sequence[Item]], None]) -> Callable[[Sequence[Item]], Sequence[None]]:
    def _made(items: Sequence[Item]) -> Sequence[None]:
        work(items)
        return [None] * len(items)

    return _made
