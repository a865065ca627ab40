"""DirectDraftFiles: draft files asked in the caller's own thread, for who has time and must lose nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from protos.draft_files import Continuation, Credit, DraftFilesStatus, Findings, Question
from services.draft_files.pretriever_lanes import Pretriever


class DirectDraftFiles:
    """A DraftFiles over a pretriever: findings come at once, and what `add` returns for is on the disk.

    What fails is kept for `check`, for a drafter must not raise it.
    """

    def __init__(self, pretriever: Pretriever) -> None:
        self._pretriever = pretriever
        self._findings: list[Findings] = []
        self._failure: Exception | None = None

    def ask(self, questions: Sequence[Question]) -> None:
        self._tried(lambda: self._findings.extend(self._pretriever.look_up(questions)))

    def answers(self) -> list[Findings]:
        findings, self._findings = self._findings, []
        return findings

    def add(self, continuations: Sequence[Continuation]) -> None:
        self._tried(lambda: self._pretriever.add(continuations))

    def credit(self, earned: Sequence[Credit]) -> None:
        self._tried(lambda: self._pretriever.credit(earned))

    def status(self) -> DraftFilesStatus:
        return DraftFilesStatus(up=self._failure is None, reason=str(self._failure or ""))

    def close(self) -> None:
        """Nothing is pending."""

    def check(self) -> None:
        """Raises the first thing that failed."""
        if self._failure is not None:
            raise self._failure

    def _tried(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001  raised by `check`
            self._failure = self._failure or error
