"""FeatureFusion: the part of a block net that the verifier runs. A `features.Fusion`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from modeling.norm import RMSNorm


class FeatureFusion(nn.Module):
    """RMSNorm(W · [taps]): one feature for each token, which all layers of the net share (arXiv 2602.06036)."""

    def __init__(self, layers: tuple[int, ...], hidden_size: int, eps: float) -> None:
        super().__init__()
        self.layers = layers
        self.width = hidden_size
        self.linear = nn.Linear(len(layers) * hidden_size, hidden_size, bias=False)
        self.norm = RMSNorm(hidden_size, eps)

    def forward(self, taps: Sequence[torch.Tensor]) -> torch.Tensor:
        """taps: the outputs of `layers`, [..., hidden] each; returns [..., hidden]."""
        fused: torch.Tensor = self.norm(self.linear(torch.cat(tuple(taps), dim=-1).to(self.norm.weight.dtype)))
        return fused
