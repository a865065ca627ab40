"""SequenceRows: the target's logits at the rows of one task, as acceptance asks for them."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch

from modeling.ranking import Row
from verifier.sequence import Sequence


class SequenceRows:
    """Implements acceptance.TargetRows. logits [rows, V]; `best`: argmax of each row, taken for the batch at once."""

    def __init__(self, sequence: Sequence, logits: torch.Tensor, best: Seq[int]) -> None:
        self._sequence = sequence
        self._logits = logits
        self._best = best
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
