"""DrafterHealth: whether a drafter that answers does so without failing, and whether it is worth asking now."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from protos.messages import DraftChunk

FIRST_REST_S = 0.05
LONGEST_REST_S = 2.0


class DrafterHealth:
    """Judges a drafter by the chunks of each round: a failed query makes it ill, a round without one well again.

    failures: failed queries so far. reason: how it failed last; empty where it is well.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.failures = 0
        self.reason = ""
        self._clock = clock
        self._rest_s = 0.0
        self._rests_until = 0.0

    @property
    def resting(self) -> bool:
        """True for a while after a round in which nothing succeeded: a failed query costs its whole text again."""
        return self._clock() < self._rests_until

    def judge(self, chunks: Sequence[DraftChunk]) -> None:
        """Takes in what one round gave; a round without an answer tells nothing."""
        failed = [chunk.error for chunk in chunks if chunk.error]
        succeeded = any(chunk.last and not chunk.error for chunk in chunks)
        if failed:
            self.failures += len(failed)
            self.reason = failed[-1]
        elif succeeded:
            self.reason = ""
        if succeeded:
            self._rest_s = 0.0
        elif failed:
            self._rest_s = min(max(2 * self._rest_s, FIRST_REST_S), LONGEST_REST_S)
            self._rests_until = self._clock() + self._rest_s
