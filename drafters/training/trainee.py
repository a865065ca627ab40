"""Trainee: a drafter's net as it is trained: from a batch to scores, and from weights to a drafter's folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from torch import nn

from drafters.training.blocks import Batch
from drafters.training.losses import Scores


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
