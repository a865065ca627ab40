"""BlockFusion, EagleFusion: the parts of block and EAGLE nets that the verifier runs. Each is a `features.Fusion`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from modeling.norm import RMSNorm


class BlockFusion(nn.Module):
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


class EagleFusion(nn.Module):
    """W · [taps]: one feature for each token (arXiv 2503.01840); norm_taps norms each tap before (EAGLE-3.1),
    norm_joined all of them as one vector."""

    def __init__(
        self, layers: tuple[int, ...], hidden_size: int, eps: float, *, norm_taps: bool, norm_joined: bool = False
    ) -> None:
        super().__init__()
        self.layers = layers
        self.width = hidden_size
        self.norms = nn.ModuleList(RMSNorm(hidden_size, eps) for _ in layers) if norm_taps else None
        self.joined_norm = RMSNorm(len(layers) * hidden_size, eps) if norm_joined else None
        self.linear = nn.Linear(len(layers) * hidden_size, hidden_size, bias=False)

    def forward(self, taps: Sequence[torch.Tensor]) -> torch.Tensor:
        """taps: the outputs of `layers`, [..., hidden] each; returns [..., hidden]."""
        # Packed for the CPU, it is no nn.Linear any more.
        dtype = self.linear.weight.dtype if isinstance(self.linear, nn.Linear) else self.linear.dtype
        states = [tap.to(dtype) for tap in taps]
        if self.norms is not None:
            states = [norm(state) for norm, state in zip(self.norms, states, strict=True)]
        joined = torch.cat(states, dim=-1)
        fused: torch.Tensor = self.linear(joined if self.joined_norm is None else self.joined_norm(joined))
        return fused


NetFusion = BlockFusion | EagleFusion
