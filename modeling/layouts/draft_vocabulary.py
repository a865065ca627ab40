"""The draft vocabulary as published: d2t holds offsets, and t2d is a mask over the target's ids."""

from __future__ import annotations

from typing import Any

import torch

from modeling.checkpoint_files import Checkpoint
from modeling.layouts.layout import Source, rows


def read_draft_vocab(checkpoint: Checkpoint, vocab_size: int, draft_size: int) -> tuple[int, ...] | None:
    """The target id of each draft id, None where they are the same. ValueError where d2t, t2d and sizes disagree."""
    if draft_size == vocab_size:
        return None
    offsets = checkpoint.tensor("d2t")
    if offsets.shape != (draft_size,) or offsets.is_floating_point():
        raise ValueError(
            f"tensor d2t of {checkpoint.name!r} is {offsets.dtype} {list(offsets.shape)}, but draft_vocab_size is "
            f"{draft_size}"
        )
    ids = target_ids(offsets)
    if "t2d" in checkpoint.names():
        _check_mask(checkpoint, ids, vocab_size)
    return tuple(ids.tolist())


def target_ids(offsets: torch.Tensor) -> torch.Tensor:
    """Draft id i stands for the target's i + offsets[i]."""
    return offsets.long() + torch.arange(len(offsets))


def vocabulary_sources(checkpoint: Checkpoint, draft_vocab: tuple[int, ...] | None) -> dict[str, Source]:
    """Sources of d2t, and of the embedding and LM head of the net's own."""
    ends = {"embedding": "embed_tokens.weight", "lm_head.weight": "lm_head.weight"}
    sources = {ours: rows(theirs) for ours, theirs in ends.items() if theirs in checkpoint.names()}
    if "d2t" in checkpoint.names():
        sources["d2t"] = Source(("d2t",), target_ids)
    assert draft_vocab is None or "d2t" in sources, "read_draft_vocab comes first"
    return sources


def own_ends(checkpoint: Checkpoint) -> dict[str, Any]:
    """Which ends a checkpoint brings along, as a NetConfig says it."""
    names = checkpoint.names()
    return {"own_embedding": "embed_tokens.weight" in names, "own_head": "lm_head.weight" in names}


def _check_mask(checkpoint: Checkpoint, ids: torch.Tensor, vocab_size: int) -> None:
    mask = checkpoint.tensor("t2d").bool()
    if mask.shape != (vocab_size,):
        raise ValueError(f"tensor t2d of {checkpoint.name!r} is {list(mask.shape)}, but vocab_size is {vocab_size}")
    if not torch.equal(mask.nonzero().flatten(), ids.sort().values):
        raise ValueError(
            f"tensors d2t and t2d of {checkpoint.name!r} name different tokens: {len(ids)} and {int(mask.sum())}, not "
            "all the same; the checkpoint is damaged, or its d2t holds no offsets"
        )
