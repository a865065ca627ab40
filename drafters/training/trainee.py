"""Trainee and NetTrainee: a drafter's net as it is trained: from a batch to scores, and to a drafter's folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import torch
from torch import nn

from drafters.training.blocks import Batch
from drafters.training.losses import Scores
from modeling.block_net import BlockNet
from modeling.eagle_net import EagleNet
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


class NetTrainee(Trainee):
    """A net that reads features, between the target's ends, which are not trained, and no part of what is saved.

    `bf16` computes products in bf16; weights stay fp32.
    """

    net: BlockNet | EagleNet

    def __init__(self, net: BlockNet | EagleNet, ends: TargetEnds, *, bf16: bool) -> None:
        super().__init__()
        self.net = net
        self._bf16 = bf16
        # Plain tensors: registered, they would be trained, saved, and copied from rank to rank.
        self._ends = _borrowed_ends(net, ends, bf16=bf16)

    @property
    def feature_layers(self) -> tuple[int, ...]:
        return self.net.config.feature_layers


def _borrowed_ends(net: BlockNet | EagleNet, ends: TargetEnds, *, bf16: bool) -> TargetEnds:
    """The ends as a net is trained between them: on its device, the head cut down to its vocabulary, and in bf16 where
    products are computed in that."""
    weight = net.norm.weight
    lm_head = ends.lm_head if net.d2t is None else ends.lm_head[net.d2t.to(ends.lm_head.device)]
    return TargetEnds(
        embedding=ends.embedding.to(weight.device),
        lm_head=lm_head.to(weight.device, torch.bfloat16 if bf16 else weight.dtype),
    )
