"""KVSlots: keys and values of the running and the remembered sequences, one slot each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class KVShape:
    """What one token leaves behind: `layers` × (key, value) × `kv_heads` × `head_dim` numbers. group: query heads that
    share a KV head."""

    layers: int
    group: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype

    @property
    def token_bytes(self) -> int:
        """Bytes of one token in one slot."""
        return self.layers * 2 * self.kv_heads * self.head_dim * self.dtype.itemsize


class KVSlots:
    """Storage [layers, slots, 2, kv_heads, max_len, head_dim]; 2 is key, value.

    Nothing here remembers lengths: whoever owns a slot knows how many of its rows are valid, so truncating is writing a
    number elsewhere. Rows start as zeros because a masked row still enters a product, where garbage could be NaN.
    """

    def __init__(self, shape: KVShape, *, num_slots: int, max_len: int, device: torch.device) -> None:
        self.num_slots = num_slots
        self.max_len = max_len
        size = (shape.layers, num_slots, 2, shape.kv_heads, max_len, shape.head_dim)
        self.storage = torch.zeros(size, dtype=shape.dtype, device=device)

    def write(self, layer: int, slots_R: torch.Tensor, rows_R: torch.Tensor, kv: torch.Tensor) -> None:  # noqa: N803
        """Stores keys and values `kv` [R, 2, kv_heads, head_dim] at (slot, row) of each."""
        self.storage[layer][slots_R, :, :, rows_R] = kv

    def view(self, layer: int, slots: slice, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of adjacent slots, [slots, kv_heads, length, head_dim] each, without copying."""
        part = self.storage[layer, slots]
        return part[:, 0, :, :length], part[:, 1, :, :length]

    def copy_rows(self, source: int, slot: int, count: int) -> None:
        """Copies the first `count` rows of `source` to `slot`, in all layers."""
        if source != slot and count:
            self.storage[:, slot, :, :, :count] = self.storage[:, source, :, :, :count]

    def keep_path(self, slot: int, start: int, path: Sequence[int]) -> None:
        """Moves rows `start + path[i]` to `start + i` in all layers; `path` rises, so nothing is lost."""
        moved = [(i, node) for i, node in enumerate(path) if i != node]
        if moved:
            to, of = zip(*moved, strict=True)
            index = torch.tensor([start + node for node in of], device=self.storage.device)
            target = torch.tensor([start + i for i in to], device=self.storage.device)
            rows = self.storage[:, slot]
            rows[..., target, :] = rows[..., index, :]
