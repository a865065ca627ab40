"""TargetEnds: the target's embedding and LM head, which a block net borrows at both of its ends."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modeling.checkpoint_files import Checkpoint

EMBEDDING = "model.embed_tokens.weight"
LM_HEAD = "lm_head.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEnds:
    """embedding, lm_head: [vocabulary, hidden]; one tensor where the target ties them."""

    embedding: torch.Tensor
    lm_head: torch.Tensor


def read_ends(target: Checkpoint, dtype: torch.dtype | None = None) -> TargetEnds:
    """The ends of a checkpoint on disk; dtype None leaves them as they are stored."""
    embedding = target.tensor(EMBEDDING).to(dtype)
    own_head = LM_HEAD in target.names() and not target.config.get("tie_word_embeddings", False)
    return TargetEnds(embedding=embedding, lm_head=target.tensor(LM_HEAD).to(dtype) if own_head else embedding)
