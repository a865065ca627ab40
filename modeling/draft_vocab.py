"""DraftVocabNet: what nets that draft from a part of the target's vocabulary have in common, and ends of their own."""

from __future__ import annotations

import torch
from torch import nn

from modeling.net_config import NetConfig


class DraftVocabNet(nn.Module):
    """Its LM head speaks of draft ids. `d2t`: the target id of each, saved with the weights; None where they are the
    target's own ids. `t2d`: the other way round. `embedding` [V, d] and `lm_head`, d → V', are None where the target's
    are to be used."""

    d2t: torch.Tensor | None
    t2d: torch.Tensor | None

    def __init__(self, config: NetConfig, *, undrafted_rows: bool = False) -> None:
        """undrafted_rows: ids that cannot be drafted have draft ids of their own, behind the others."""
        super().__init__()
        d2t = t2d = None
        if config.draft_vocab is not None:
            d2t = torch.tensor(config.draft_vocab)
            t2d = torch.full((config.vocab_size,), len(d2t))
            known = draft_order(config.vocab_size, config.draft_vocab) if undrafted_rows else d2t
            t2d[known] = torch.arange(len(known))
        self.register_buffer("d2t", d2t)
        self.register_buffer("t2d", t2d, persistent=False)
        hidden = config.hidden_size
        self.embedding = nn.Parameter(torch.randn(config.vocab_size, hidden) * 0.02) if config.own_embedding else None
        self.lm_head = nn.Linear(hidden, config.draft_vocab_size, bias=False) if config.own_head else None

    def draft_ids(self, target_ids: torch.Tensor) -> torch.Tensor:
        """Draft id of each target id; draft_vocab_size, or above with `undrafted_rows`, where it cannot be drafted,
        which may stand before a token."""
        return target_ids if self.t2d is None else self.t2d[target_ids]

    def target_ids(self, draft_ids: torch.Tensor) -> torch.Tensor:
        """Target id of each draft id."""
        return draft_ids if self.d2t is None else self.d2t[draft_ids]

    def drop_copies(self, embedding: torch.Tensor, lm_head: torch.Tensor) -> None:
        """Gives up own ends that are the target's, [V, d] each, rounded to the dtype they are stored in."""
        if self.embedding is not None and _same(self.embedding, embedding):
            self.embedding = None
        rows = lm_head if self.d2t is None else lm_head[self.d2t.to(lm_head.device)]
        if self.lm_head is not None and _same(self.lm_head.weight, rows):
            self.lm_head = None


def draft_order(vocab_size: int, draft_vocab: tuple[int, ...]) -> torch.Tensor:
    """All target ids [V]: first those of the draft ids, then the others, ascending."""
    drafted = torch.tensor(draft_vocab)
    others = torch.ones(vocab_size, dtype=torch.bool)
    others[drafted] = False
    return torch.cat((drafted, others.nonzero().flatten()))


def _same(own: torch.Tensor, theirs: torch.Tensor) -> bool:
    return torch.equal(own.detach().to(theirs.device), theirs.to(own.dtype))
