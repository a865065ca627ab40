"""SlotState: what a draft model's slot holds of one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from drafters.agreement import agreeing
from modeling.sampling import TokenSampler


@dataclass(slots=True)
class SlotState:
    """A request's text and how much of it the slot holds.

    `rows` leading tokens of `text` have their keys and values in the slot; once all have, those of `guessed` follow.
    Whatever lies beyond is overwritten by the next forward. `sampler` has committed the answer's tokens among the first
    `sampled` of the text.
    """

    slot: int
    tenant: str
    text: list[int] = field(default_factory=list)
    rows: int = 0
    guessed: list[int] = field(default_factory=list)
    sampler: TokenSampler | None = None
    sampled: int = 0

    def synchronise(self, tail_start: int, tail: Sequence[int]) -> None:
        """Truncates the text to `tail_start` and appends the tail.

        What of the tail was there already, as text of an answer that got lost or as guesses, keeps its rows.
        """
        held = self.text[: self.rows] + self.guessed
        self.rows, self.guessed = min(agreeing(held, tail_start, tail), len(held)), []
        self.text[tail_start:] = tail
        if self.sampled > tail_start:
            self.sampler = None
