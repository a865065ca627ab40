"""The target's logits of one step, and the part of them that the acceptance of one sequence asks for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modeling.ranking import Row, argmax_lowest
from verifier.sequence import Sequence


@dataclass(frozen=True, slots=True)
class VerifiedRows:
    """logits [rows, V] of all tasks of a step; `best`: each row's argmax, lowest id first among equals."""

    logits: torch.Tensor
    best: list[int]

    @classmethod
    def of(cls, logits: torch.Tensor, *, on_host: bool) -> VerifiedRows:
        """Waits for the device. The logits follow to the host in one copy, where anybody will look at them there."""
        best: list[int] = argmax_lowest(logits).tolist()
        return cls(logits.cpu() if on_host else logits, best)


class SequenceRows:
    """Implements acceptance.TargetRows over the `rows` of a step that belong to one sequence."""

    def __init__(self, sequence: Sequence, verified: VerifiedRows, rows: slice) -> None:
        self._sequence = sequence
        self._logits = verified.logits[rows]
        self._best = verified.best[rows]
        self._row = 0

    def draw(self, row: int) -> int:
        """The target's own token after `row`, given what was emitted so far."""
        self._row = row
        sampler = self._sequence.sampler
        if sampler.greedy_raw:
            return self._best[row]
        return sampler.draw(self._logits[row], len(self._sequence.tokens))

    def distribution(self, row: int) -> Row:
        """The processed distribution [V] after `row`, given what was emitted so far."""
        self._row = row
        return self._sequence.sampler.distribution(self._logits[row])

    def emit(self, token: int) -> bool:
        """Commits a token drawn at the row asked for last. False where the text ends."""
        return self._sequence.emit(token, self._logits[self._row])
