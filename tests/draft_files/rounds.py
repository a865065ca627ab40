"""What the tests of draft files have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from protos.draft_files import DraftFiles, Findings, Question


def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.002)


def answers(files: DraftFiles, count: int) -> list[Findings]:
    """The next so many."""
    came: list[Findings] = []

    def _came() -> bool:
        came.extend(files.answers())
        return len(came) >= count

    until(_came)
    return came


def found(files: DraftFiles, *questions: Question) -> list[Findings]:
    """One round."""
    files.ask(questions)
    return answers(files, len(questions))


def paths(findings: Sequence[Findings]) -> list[list[tuple[int, ...]]]:
    """The paths of each one's hits."""
    return [[path.tokens for hit in one.hits for path in hit.paths] for one in findings]
