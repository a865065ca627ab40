"""ScriptedDraftFiles: draft files in memory that find what ends with the same four tokens, and answer when told to."""

from __future__ import annotations

from collections.abc import Sequence

from protos.draft_files import Continuation, Credit, DraftFilesStatus, Findings, Hit, Path, Question
from protos.messages import Tokens

SAME = 4


class ScriptedDraftFiles:
    """held_back: as long as it is true, no finding is given out."""

    def __init__(self) -> None:
        self.held_back = False
        self.asked: list[Question] = []
        self.added: list[Continuation] = []
        self.credited: list[Credit] = []
        self._unanswered: list[Question] = []
        self._hits: dict[tuple[str, Tokens], Hit] = {}

    def remember(self, context: Tokens, *paths: Path, tenant: str = "") -> None:
        """What texts that end with `context` went on with, the most frequent first."""
        self._hits[tenant, context[-SAME:]] = Hit(
            digest=repr(context).encode()[:16].ljust(16), context=context, paths=paths, match_length=SAME
        )

    def ask(self, questions: Sequence[Question]) -> None:
        self.asked += questions
        self._unanswered += questions

    def answers(self) -> list[Findings]:
        if self.held_back:
            return []
        questions, self._unanswered = self._unanswered, []
        return [
            Findings(request_id=each.request_id, length=each.prefix.length, hits=self._found(each))
            for each in questions
        ]

    def _found(self, question: Question) -> tuple[Hit, ...]:
        hit = self._hits.get((question.namespace.tenant, question.prefix.tokens[-SAME:]))
        return () if hit is None else (hit,)

    def add(self, continuations: Sequence[Continuation]) -> None:
        self.added += continuations

    def credit(self, earned: Sequence[Credit]) -> None:
        self.credited += earned

    def status(self) -> DraftFilesStatus:
        return DraftFilesStatus(up=True)

    def close(self) -> None:
        pass
