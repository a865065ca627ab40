"""SlotState: what a draft model's slot holds of one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
        kept = min(self.rows, tail_start)
        for held, token in zip(self.text[kept : self.rows] + self.guessed, tail, strict=False):
            if held != token:
                break
            kept += 1
        self.text[tail_start:] = tail
        self.rows, self.guessed = kept, []
        if self.sampled > tail_start:
            self.sampler = None
