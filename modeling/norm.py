"""RMSNorm that computes in its input's dtype, whatever its weight's: under autocast the two differ."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class RMSNorm(nn.RMSNorm):
    """torch's own takes one fused kernel where both dtypes are equal, and many passes where they are not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., hidden] → the same shape and dtype."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)
