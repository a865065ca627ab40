"""StateFusion: the states of one layer, made short, for those who compare texts. It is a `features.Fusion`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

SEED = 20240229


class StateFusion:
    """Each state at unit RMS, then a fixed random projection, which keeps angles to about 1 / sqrt(width) (Johnson and
    Lindenstrauss, 1984). Unit RMS first: the first token's state is a thousand times as long as any other.
    """

    def __init__(self, layer: int, hidden_size: int, width: int) -> None:
        self.layers = (layer,)
        self.width = width
        drawn = torch.randn(hidden_size, width, generator=torch.Generator().manual_seed(SEED))
        self._projection = drawn / hidden_size**0.5
        self._placed: torch.Tensor | None = None

    def __call__(self, taps: Sequence[torch.Tensor]) -> torch.Tensor:
        """taps: one [R, hidden]; returns [R, width] in float32."""
        (states,) = taps
        if self._placed is None or self._placed.device != states.device:
            self._placed = self._projection.to(states.device)
        states = states.float()
        return (states * states.pow(2).mean(-1, keepdim=True).add(1e-6).rsqrt()) @ self._placed
