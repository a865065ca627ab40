"""Draft files whose findings are waited for, so that how many drafts come true does not depend on the machine."""

from __future__ import annotations

from collections.abc import Sequence

from protos.draft_files import Continuation, Credit, DraftFiles, DraftFilesStatus, Findings, Question
from tests.draft_files.rounds import answers, until


class PatientDraftFiles:
    """Those of `files`: `answers` returns once every question has its findings."""

    def __init__(self, files: DraftFiles) -> None:
        until(lambda: files.status().up)
        self._files = files
        self._owed = 0

    def ask(self, questions: Sequence[Question]) -> None:
        self._owed += len(questions)
        self._files.ask(questions)

    def answers(self) -> list[Findings]:
        owed, self._owed = self._owed, 0
        return answers(self._files, owed)

    def add(self, continuations: Sequence[Continuation]) -> None:
        self._files.add(continuations)

    def credit(self, earned: Sequence[Credit]) -> None:
        self._files.credit(earned)

    def status(self) -> DraftFilesStatus:
        return self._files.status()

    def close(self) -> None:
        self._files.close()
