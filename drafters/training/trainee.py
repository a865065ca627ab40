"""Trainee: a drafter's net as it is trained: from a batch to scores, and from weights to a drafter's folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import torch
from torch import nn

from drafters.training.blocks import Batch
from drafters.training.losses import Scores
from modeling.draft_vocab import DraftVocabNet
from modeling.target_ends import TargetEnds


class Trainee(nn.Module, ABC):
    """Each kind of net has its own. Its parameters are those of `net`; what it borrows of the target is none."""

    net: nn.Module

    @property
    @abstractmethod
    def feature_layers(self) -> tuple[int, ...]:
        """Target layers whose outputs a batch must have as taps."""

    @property
    @abstractmethod
    def num_predictions(self) -> int:
        """P: predictions of a block."""

    @abstractmethod
    def forward(self, batch: Batch) -> Scores:
        """Scores of all predictions of a batch, with gradients."""

    @abstractmethod
    def publish(self, folder: Path) -> None:
        """Writes the net in bf16, as its drafter reads it."""


def borrowed_ends(net: DraftVocabNet, ends: TargetEnds, *, bf16: bool) -> TargetEnds:
    """The ends as a net is trained between them: on its device, the head cut down to its vocabulary, and in bf16 where
    products are computed in that."""
    weight = next(net.parameters())
    lm_head = ends.lm_head if net.d2t is None else ends.lm_head[net.d2t.to(ends.lm_head.device)]
    return TargetEnds(
        embedding=ends.embedding.to(weight.device),
        lm_head=lm_head.to(weight.device, torch.bfloat16 if bf16 else weight.dtype),
    )
