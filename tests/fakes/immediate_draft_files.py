"""ImmediateDraftFiles: a DraftFiles whose pretriever answers, adds and credits within the call."""

from __future__ import annotations

from collections.abc import Sequence

from cache_service.pretriever import Pretriever
from protos.draft_files import Continuation, Credit, DraftFilesStatus, Findings, Question


class ImmediateDraftFiles:
    """For tests that say what is found when; the real ones answer from a thread of their own."""

    def __init__(self, pretriever: Pretriever) -> None:
        self._pretriever = pretriever
        self._findings: list[Findings] = []

    def ask(self, questions: Sequence[Question]) -> None:
        self._findings += self._pretriever.look_up(questions)

    def answers(self) -> list[Findings]:
        findings, self._findings = self._findings, []
        return findings

    def add(self, continuations: Sequence[Continuation]) -> None:
        self._pretriever.add(continuations)

    def credit(self, earned: Sequence[Credit]) -> None:
        self._pretriever.credit(earned)

    def status(self) -> DraftFilesStatus:
        return DraftFilesStatus(up=True)

    def close(self) -> None:
        pass
