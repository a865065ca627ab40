"""TargetEnds: the target's embedding and LM head, which draft nets borrow at both of their ends."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modeling.checkpoint_files import Checkpoint

EMBEDDING = "model.embed_tokens.weight"
LM_HEAD = "lm_head.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEnds:
    """embedding, lm_head: [V, d]; one tensor where the target ties them."""

    embedding: torch.Tensor
    lm_head: torch.Tensor


def read_ends(
    target: Checkpoint,
    dtype: torch.dtype | None = None,
    *,
    embedding: torch.Tensor | None = None,
    lm_head: torch.Tensor | None = None,
) -> TargetEnds:
    """The ends of a checkpoint on disk, of which only what is not given is read; dtype None: as it is stored.

    ValueError where its embedding is not called EMBEDDING.
    """
    if embedding is None:
        embedding = target.tensor(EMBEDDING).to(dtype)
    if lm_head is None:
        own = LM_HEAD in target.names() and not target.config.get("tie_word_embeddings", False)
        lm_head = target.tensor(LM_HEAD).to(dtype) if own else embedding
    return TargetEnds(embedding=embedding, lm_head=lm_head)
