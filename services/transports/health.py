"""DrafterHealth: whether a drafter that answers does so without failing."""

from __future__ import annotations

from collections.abc import Sequence

from protos.messages import DraftChunk


class DrafterHealth:
    """Judges a drafter by the chunks of each round: a failed query makes it ill, a round without one well again.

    failures: failed queries so far. reason: how it failed last; empty where it is well.
    """

    def __init__(self) -> None:
        self.failures = 0
        self.reason = ""

    def judge(self, chunks: Sequence[DraftChunk]) -> None:
        """Takes in what one round gave; a round without an answer tells nothing."""
        failed = [chunk.error for chunk in chunks if chunk.error]
        if failed:
            self.failures += len(failed)
            self.reason = failed[-1]
        elif any(chunk.last for chunk in chunks):
            self.reason = ""
