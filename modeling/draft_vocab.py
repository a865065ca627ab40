"""DraftVocabNet: what nets that draft from a part of the target's vocabulary have in common."""

from __future__ import annotations

import torch
from torch import nn


class DraftVocabNet(nn.Module):
    """Its LM head speaks of draft ids. `d2t`: the target id of each, saved with the weights; None where they are the
    target's own ids. `t2d`: the other way round."""

    d2t: torch.Tensor | None
    t2d: torch.Tensor | None

    def __init__(self, *, vocab_size: int, draft_vocab: tuple[int, ...] | None) -> None:
        super().__init__()
        d2t = t2d = None
        if draft_vocab is not None:
            d2t = torch.tensor(draft_vocab)
            t2d = torch.full((vocab_size,), len(d2t))
            t2d[d2t] = torch.arange(len(d2t))
        self.register_buffer("d2t", d2t)
        self.register_buffer("t2d", t2d, persistent=False)

    def draft_ids(self, target_ids: torch.Tensor) -> torch.Tensor:
        """Draft id of each target id; draft_vocab_size where it cannot be drafted, which may stand before a token."""
        return target_ids if self.t2d is None else self.t2d[target_ids]

    def target_ids(self, draft_ids: torch.Tensor) -> torch.Tensor:
        """Target id of each draft id."""
        return draft_ids if self.d2t is None else self.d2t[draft_ids]
