"""Batch: blocks of several examples as tensors, and the mask that keeps the blocks of one example apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch.nn.utils.rnn import pad_sequence

from drafters.training.answers import Example
from drafters.training.features import Features


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """B examples of n context positions, with A blocks of P predictions each; all token ids are the target's.

    tokens: [B, n + 1]; taps: [B, n, m * hidden], of all tokens but the last; both padded. anchors, anchor_ids: [B, A],
    positions and the tokens there. previous, labels: [B, A, P], the token before and the one to predict. law_ids,
    law_probs: [B, A, P, K], the target's law of each label. valid: [B, A, P] bool, False beyond the end of an answer
    and in blocks that only fill up a row.
    """

    tokens: torch.Tensor
    taps: torch.Tensor
    anchors: torch.Tensor
    anchor_ids: torch.Tensor
    previous: torch.Tensor
    labels: torch.Tensor
    law_ids: torch.Tensor
    law_probs: torch.Tensor
    valid: torch.Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        return replace(self, **{each.name: getattr(self, each.name).to(device) for each in fields(self)})


def make_batch(
    examples: Sequence[Example], features: Sequence[Features], anchors: Sequence[torch.Tensor], *, predictions: int
) -> Batch:
    """anchors: positions in each example, at least one."""
    most = max(len(places) for places in anchors)
    rows = [
        _blocks(*each, most=most, predictions=predictions) for each in zip(examples, features, anchors, strict=True)
    ]
    stacked = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    return Batch(
        tokens=pad_sequence([torch.tensor(each.tokens) for each in examples], batch_first=True),
        taps=pad_sequence([each.taps for each in features], batch_first=True),
        **stacked,
    )


def _blocks(
    example: Example, features: Features, anchors: torch.Tensor, *, most: int, predictions: int
) -> dict[str, torch.Tensor]:
    """The blocks of one example, filled up to `most` with blocks at its first anchor that do not count."""
    tokens = torch.tensor(example.tokens)
    filling = most - len(anchors)
    places = torch.cat((anchors, anchors[:1].expand(filling)))
    real = torch.arange(most) < len(anchors)
    before = places[:, None] + torch.arange(predictions)
    valid = (before < len(tokens) - 1) & real[:, None]
    before = before.clamp(max=len(tokens) - 2)
    laws = before - example.prompt_len
    return {
        "anchors": places,
        "anchor_ids": tokens[places],
        "previous": tokens[before],
        "labels": tokens[before + 1],
        "law_ids": features.law_ids[laws].long(),
        "law_probs": features.law_probs[laws].float(),
        "valid": valid,
    }


def block_positions(anchors: torch.Tensor, block_size: int) -> torch.Tensor:
    """Positions [B, A * γ] of blocks of γ inputs at anchors [B, A]."""
    return (anchors[:, :, None] + torch.arange(block_size, device=anchors.device)).flatten(1)


def block_mask(anchors: torch.Tensor, block_size: int, context: int) -> torch.Tensor:
    """[B, 1, A * γ, context + A * γ] bool: a block sees the context before its anchor, and all of itself."""
    count = anchors.shape[1] * block_size
    limits = anchors.repeat_interleave(block_size, dim=1)
    seen = torch.arange(context, device=anchors.device) < limits[:, :, None]
    block = torch.arange(count, device=anchors.device) // block_size
    own = (block[:, None] == block).expand(len(anchors), count, count)
    return torch.cat((seen, own), dim=-1).unsqueeze(1)
