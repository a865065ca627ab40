"""Lane: one thread through which the items of many callers pass to one function, all that have gathered at a time."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

MAX_BATCH = 256

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Made]):
    """made: of the items that did not fail, in their order. error: how the last one failed that did."""

    made: tuple[Made, ...]
    failed: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Parcel(Generic[Item, Made]):
    items: tuple[Item, ...]
    outcome: Future[Outcome[Made]]


class Lane(Generic[Item, Made]):
    """`work` makes one thing of each item, in their order. Where it raises, each item of the batch is tried alone, so
    that none fails for another's fault.

    limit: items that may wait. Counters: done, dropped (no room, or closed), errors (items that `work` failed at).
    """

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Made]], *, name: str, limit: int) -> None:
        self._work = work
        self._limit = limit
        self._changed = threading.Condition()
        self._waiting: deque[_Parcel[Item, Made]] = deque()
        self._num_waiting = 0
        self._closed = False
        self.counters: Counter[str] = Counter(done=0, dropped=0, errors=0)
        self.reason = ""  # how something in the last batch failed, empty where nothing did
        self._logged = ""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, items: Sequence[Item]) -> Future[Outcome[Made]] | None:
        """Returns at once, with what will come of the items; None where they are dropped."""
        parcel: _Parcel[Item, Made] = _Parcel(tuple(items), Future())
        with self._changed:
            if self._closed or self._num_waiting + len(items) > self._limit:
                self.counters["dropped"] += len(items)
                return None
            self._num_waiting += len(items)
            self._waiting.append(parcel)
            self._changed.notify()
        return parcel.outcome

    def close(self, timeout_s: float) -> bool:
        """Takes nothing any more, and waits until what waits is done; True where it was in time. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if threading.current_thread() is self._thread:  # whose last callback held whoever closes
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while self._turn():
            pass

    def _turn(self) -> bool:
        """Does what has gathered; False once the lane is closed. Afterwards it holds nothing of any caller's."""
        parcels = self._next()
        if not parcels:
            return False
        outcomes = self._outcomes([item for parcel in parcels for item in parcel.items])
        self.reason = _joint(outcomes).error
        place = 0
        for parcel in parcels:
            parcel.outcome.set_result(_joint(outcomes[place : place + len(parcel.items)]))
            place += len(parcel.items)
        return True

    def _next(self) -> list[_Parcel[Item, Made]]:
        """What has gathered, at most MAX_BATCH items unless one caller put more; none once the lane is closed."""
        parcels: list[_Parcel[Item, Made]] = []
        with self._changed:
            while not parcels:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    break
                size = 0
                while self._waiting and (not size or size + len(self._waiting[0].items) <= MAX_BATCH):
                    parcel = self._waiting.popleft()
                    size += len(parcel.items)
                    if parcel.outcome.set_running_or_notify_cancel():
                        parcels.append(parcel)
                self._num_waiting -= size
        return parcels

    def _outcomes(self, items: list[Item]) -> list[Outcome[Made]]:
        """One for each item."""
        try:
            made = self._work(items)
            if len(made) != len(items):
                raise RuntimeError(f"{len(made)} results for {len(items)} items")
        # Of whatever kind: draft files that fail cost drafts, never their caller.
        except Exception as error:  # noqa: BLE001  counted and logged below
            failure = error
        else:
            self.counters["done"] += len(items)
            return [Outcome(made=(one,)) for one in made]
        if len(items) > 1:
            return [outcome for item in items for outcome in self._outcomes([item])]
        return [Outcome(made=(), failed=1, error=self._failed(failure))]

    def _failed(self, error: Exception) -> str:
        self.counters["errors"] += 1
        reason = f"{type(error).__name__}: {error}"
        if reason != self._logged:  # not once for each of a thousand questions
            logger.error("%s failed: %s", self._thread.name, reason, exc_info=error)
        self._logged = reason
        return reason


def _joint(outcomes: Sequence[Outcome[Made]]) -> Outcome[Made]:
    if len(outcomes) == 1:
        return outcomes[0]
    return Outcome(
        made=tuple(one for outcome in outcomes for one in outcome.made),
        failed=sum(outcome.failed for outcome in outcomes),
        error=next((outcome.error for outcome in reversed(outcomes) if outcome.error), ""),
    )
