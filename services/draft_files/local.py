"""LocalDraftFiles: draft files in the drafter's own process, looked up beside it."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

from protos.draft_files import Continuation, Credit, DraftFilesStatus, Findings, Question
from services.draft_files.lane import Outcome
from services.draft_files.pretriever_lanes import Pretriever, PretrieverLanes

logger = logging.getLogger(__name__)

MAX_ANSWERS = 4096
CLOSE_TIMEOUT_S = 10.0


class LocalDraftFiles:
    """A DraftFiles over a pretriever. `opened`: what `close` closes after the pretriever, such as its store.

    Counters: questions (looked up), additions, credits, `dropped_` each of these and dropped_answers (that nobody
    fetched), errors (items that failed).
    """

    def __init__(self, pretriever: Pretriever, opened: contextlib.ExitStack | None = None) -> None:
        self._lanes = PretrieverLanes(pretriever)
        self._answers: deque[Findings] = deque(maxlen=MAX_ANSWERS)
        self._dropped_answers = 0
        self._closed = False
        # Also for whoever forgets to close: a directory that stays open cannot be opened again.
        self._finish = weakref.finalize(self, _finish, self._lanes, opened or contextlib.ExitStack())

    def ask(self, questions: Sequence[Question]) -> None:
        asked = self._lanes.look_ups.put(questions) if questions else None
        if asked is not None:
            asked.add_done_callback(self._take)

    def answers(self) -> list[Findings]:
        return [self._answers.popleft() for _ in range(len(self._answers))]

    def add(self, continuations: Sequence[Continuation]) -> None:
        if continuations:
            self._lanes.additions.put(continuations)

    def credit(self, earned: Sequence[Credit]) -> None:
        if earned:
            self._lanes.credits.put(earned)

    def status(self) -> DraftFilesStatus:
        reason = "closed" if self._closed else self._lanes.reason
        counters = self._lanes.counters | {"dropped_answers": self._dropped_answers}
        return DraftFilesStatus(up=not reason, reason=reason, counters=counters)

    def close(self) -> None:
        self._closed = True
        self._finish()

    def _take(self, asked: Future[Outcome[Findings]]) -> None:
        findings = asked.result().made
        self._dropped_answers += max(len(self._answers) + len(findings) - MAX_ANSWERS, 0)
        self._answers.extend(findings)


def _finish(lanes: PretrieverLanes, opened: contextlib.ExitStack) -> None:
    if not lanes.close(CLOSE_TIMEOUT_S):
        logger.warning("draft files did not take in within %g s what was pending; it is lost", CLOSE_TIMEOUT_S)
    try:
        opened.close()
    except Exception:  # of whatever kind: a disk that fails now costs what it does not hold, never its caller
        logger.exception("draft files could not be closed well")
