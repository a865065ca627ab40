"""Features: what a learned drafter is told of the target's hidden states. They lie beside the keys and values.

The states of a few layers are fused into one vector for each token where they arise, so that a drafter elsewhere gets d
numbers a token instead of one hidden state a layer. Kept by slot and row, they share the fate of the KV rows: a prefix
that is reused brings its features along, and a drafter that lost its state is given them all again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from modeling.work import Work
from protos.arrays import BFLOAT16


class Fusion(Protocol):
    """Taps of some layers in, one vector for each row out."""

    @property
    def layers(self) -> tuple[int, ...]:
        """Target layers whose outputs are tapped; layer i is the i-th decoder layer, counted from 0."""
        ...

    @property
    def width(self) -> int:
        """Numbers in a fused feature."""
        ...

    def __call__(self, taps: Sequence[torch.Tensor]) -> torch.Tensor:
        """taps: one [R, hidden] for each of `layers`; returns [R, width]."""
        ...


class JoinedFusion:
    """Several fusions of the same target side by side, for drafters of which each reads its own columns.

    A layer that several tap is tapped once. Columns come in the order of `parts`.
    """

    def __init__(self, parts: Sequence[Fusion]) -> None:
        self._parts = tuple(parts)
        self.layers = tuple(sorted({layer for part in parts for layer in part.layers}))
        self.width = sum(part.width for part in parts)

    def __call__(self, taps: Sequence[torch.Tensor]) -> torch.Tensor:
        """See Fusion."""
        tapped = dict(zip(self.layers, taps, strict=True))
        return torch.cat([part([tapped[layer] for layer in part.layers]) for part in self._parts], dim=-1)


class Slots(Protocol):
    """What keeps something for each row of each slot: a runner its keys and values, FeatureSlots features."""

    def copy_rows(self, source: int, slot: int, count: int) -> None: ...

    def keep_path(self, slot: int, start: int, path: Sequence[int]) -> None: ...


class FeatureSlots:
    """Storage [slots, max_len, width] in bf16: a drafter's guesses need no more, and the wire carries no more.

    Whoever runs the target does here what it does to its KV slots.
    """

    def __init__(self, fusion: Fusion, *, num_slots: int, max_len: int, device: torch.device) -> None:
        self.fusion = fusion
        self.width = fusion.width
        self._storage = torch.zeros(num_slots, max_len, fusion.width, dtype=torch.bfloat16, device=device)

    @torch.inference_mode()
    def write(self, works: Sequence[Work], taps: Sequence[torch.Tensor]) -> None:
        """Fuses and stores what one forward of `works` tapped of its rows."""
        fused = self.fusion(taps).to(torch.bfloat16)
        row = 0
        for work in works:
            size = len(work.tokens)
            self._storage[work.slot, work.start : work.start + size] = fused[row : row + size]
            row += size

    def read(self, slot: int, start: int, stop: int) -> NDArray[np.generic]:
        """Features of rows start..stop-1 as a wire array [rows, width]; a copy."""
        rows = self._storage[slot, start:stop].cpu().clone()
        return rows.view(torch.uint16).numpy().view(BFLOAT16)

    def copy_rows(self, source: int, slot: int, count: int) -> None:
        """See KVSlots.copy_rows."""
        if source != slot:
            self._storage[slot, :count] = self._storage[source, :count]

    def keep_path(self, slot: int, start: int, path: Sequence[int]) -> None:
        """See KVSlots.keep_path."""
        if any(i != node for i, node in enumerate(path)):
            of = torch.tensor([start + node for node in path], device=self._storage.device)
            self._storage[slot, start : start + len(path)] = self._storage[slot, of]
