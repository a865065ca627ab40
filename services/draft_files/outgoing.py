"""Outgoing: what a drafter wants of a cache service: questions, which age, and changes, which are kept until taken."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import TypeVar

from protos.draft_files import Continuation, Credit, Question

MAX_QUESTIONS = 1024
MAX_KEPT = 8192  # continuations, and as many credits
MAX_BATCH = 256

Item = TypeVar("Item")
Change = Continuation | Credit
Changes = list[Continuation] | list[Credit]


class Outgoing:
    """Shared by the drafter's thread (`ask`, `keep`), the sender of a stream (`next_questions`), its reader (`opened`,
    `answered`, `lost`) and the writer (`next_changes`, then `taken` or `put_back`).

    While no stream is open, questions are dropped and changes kept; where there are too many, the oldest go. One batch
    of questions is under way at a time: what is asked meanwhile gathers to the next. Counters: dropped_questions,
    dropped_additions, dropped_credits, errors (questions that cannot be sent).
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.stream = 0  # number of the one that is open or is being opened
        self._open = False
        self._closing = False
        self._ended = False
        self._questions: deque[Question] = deque()
        self._owed = 0
        self._owed_since = 0.0
        self._continuations: deque[Continuation] = deque()
        self._credits: deque[Credit] = deque()
        self._under_way = 0
        self.counters: Counter[str] = Counter(dropped_questions=0, dropped_additions=0, dropped_credits=0, errors=0)

    def ask(self, questions: Sequence[Question]) -> None:
        """To be sent soon."""
        with self._changed:
            if not self._open or self._closing:
                self.counters["dropped_questions"] += len(questions)
                return
            self._questions.extend(questions)
            self.counters["dropped_questions"] += _cut(self._questions, MAX_QUESTIONS)
            self._changed.notify_all()

    def keep(self, changes: Sequence[Change]) -> None:
        """To be taken in some time."""
        with self._changed:
            if self._closing:
                self._dropped(changes)
                return
            self._continuations.extend(one for one in changes if isinstance(one, Continuation))
            self._credits.extend(one for one in changes if isinstance(one, Credit))
            self._bound()

    def put_back(self, changes: Changes) -> None:
        """Those of `next_changes` that the service did not take."""
        with self._changed:
            self._under_way = 0
            self._continuations.extendleft(one for one in reversed(changes) if isinstance(one, Continuation))
            self._credits.extendleft(one for one in reversed(changes) if isinstance(one, Credit))
            self._bound()

    def taken(self) -> None:
        """Those of `next_changes` are no longer needed."""
        with self._changed:
            self._under_way = 0
            self._changed.notify_all()

    def next_questions(self, stream: int) -> list[Question]:
        """Waits for some, to be sent over that stream; none once it is lost."""
        with self._changed:
            self._changed.wait_for(lambda: stream != self.stream or (self._open and self._questions and not self._owed))
            if stream != self.stream:
                return []
            questions = _take(self._questions)
            self._owed, self._owed_since = len(questions), time.monotonic()
            return questions

    def next_changes(self) -> Changes:
        """Waits for some and for a stream; none once all has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or (self._open and (self._continuations or self._credits)))
            if self._ended:
                return []
            changes: Changes = _take(self._continuations) if self._continuations else _take(self._credits)
            self._under_way = len(changes)
            return changes

    def opened(self) -> None:
        """The stream is there."""
        with self._changed:
            self._open = not self._ended
            self._changed.notify_all()

    def answered(self) -> int:
        """The questions under way are; returns how many they were."""
        with self._changed:
            answered, self._owed = self._owed, 0
            self._changed.notify_all()
            return answered

    def refused(self, count: int, stream: int) -> None:
        """So many of the questions under way cannot be sent over that stream."""
        with self._changed:
            if stream == self.stream:  # else they were lost with it
                self._owed -= count
                self.counters["errors"] += count
                self._changed.notify_all()

    def lost(self) -> None:
        """The stream is gone, and with it what was asked over it."""
        with self._changed:
            self.stream += 1
            self._open = False
            self.counters["dropped_questions"] += self._owed + _cut(self._questions, 0)
            self._owed = 0
            self._changed.notify_all()

    @property
    def owed_for(self) -> float:
        """Seconds since the questions under way were sent; 0 where none are."""
        return time.monotonic() - self._owed_since if self._owed else 0.0

    def close(self, timeout_s: float) -> None:
        """Takes nothing any more, waits while a stream is open until the changes are taken, and drops the rest."""
        with self._changed:
            self._closing = True
            self._changed.wait_for(lambda: not self._open or not self._pending, timeout=timeout_s)
            self._ended = True
            self._open = False
            self._dropped([*self._continuations, *self._credits])
            self._continuations.clear()
            self._credits.clear()
            self._changed.notify_all()

    @property
    def _pending(self) -> int:
        return len(self._continuations) + len(self._credits) + self._under_way

    def _bound(self) -> None:
        self.counters["dropped_additions"] += _cut(self._continuations, 0 if self._ended else MAX_KEPT)
        self.counters["dropped_credits"] += _cut(self._credits, 0 if self._ended else MAX_KEPT)
        self._changed.notify_all()

    def _dropped(self, changes: Sequence[Change]) -> None:
        additions = sum(isinstance(one, Continuation) for one in changes)
        self.counters["dropped_additions"] += additions
        self.counters["dropped_credits"] += len(changes) - additions


def _take(items: deque[Item]) -> list[Item]:
    return [items.popleft() for _ in range(min(len(items), MAX_BATCH))]


def _cut(items: deque[Item], most: int) -> int:
    """Drops the oldest; returns how many."""
    excess = max(len(items) - most, 0)
    for _ in range(excess):
        items.popleft()
    return excess
