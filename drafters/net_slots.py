"""NetSlots: the KV slots of a draft net, one for each request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from drafters.context import DrafterContext
from drafters.model_config import ModelConfig
from modeling.block_net import BlockNet
from modeling.draft_attention import KeysValues
from modeling.eagle_net import EagleNet
from modeling.runner import SlotLimits
from modeling.slots import KVShape, KVSlots


class Filled(Protocol):
    """What slots must know of a request's state: its slot, and how many rows of that are the request's."""

    slot: int
    rows: int


class NetSlots:
    """What a net computed of each text. Nothing that is drafted is kept: a request's rows are as many as it says."""

    def __init__(self, net: BlockNet | EagleNet, limits: SlotLimits) -> None:
        config = net.config
        shape = KVShape(
            layers=config.num_layers,
            group=config.num_heads // config.num_kv_heads,
            kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            dtype=net.dtype,
        )
        self.num_slots = limits.fitting(shape.token_bytes * limits.max_len)
        self.max_len = limits.max_len
        self._device = net.norm.weight.device
        self._slots = KVSlots(shape, num_slots=self.num_slots, max_len=self.max_len, device=self._device)

    def append(self, states: Sequence[Filled], counts: Sequence[int], layers: Sequence[KeysValues]) -> None:
        """Stores the next rows of each state; keys and values [kv_heads, R, head_dim], one state after the other."""
        pairs = list(zip(states, counts, strict=True))
        slots = self._index([state.slot for state, count in pairs for _ in range(count)])
        rows = self.next_rows(states, counts)
        for layer, pair in enumerate(layers):
            self._slots.write(layer, slots, rows, torch.stack(pair).permute(2, 0, 1, 3))
        for state, count in pairs:
            state.rows += count

    def next_rows(self, states: Sequence[Filled], counts: Sequence[int]) -> torch.Tensor:
        """Where in their slots the next rows of the states belong, [R]."""
        pairs = zip(states, counts, strict=True)
        return self._index([row for state, count in pairs for row in range(state.rows, state.rows + count)])

    def read(self, states: Sequence[Filled], *, spare: int = 0) -> tuple[list[KeysValues], torch.Tensor]:
        """Copies of each layer's keys and values [b, kv_heads, n + spare, head_dim], n the rows of the longest state,
        and which of the n rows are a state's own, bool [b, n]. The spare rows hold anything."""
        lengths = [state.rows for state in states]
        index, longest = self._index([state.slot for state in states]), max(lengths)
        valid = torch.arange(longest, device=self._device) < self._index(lengths)[:, None]
        layers = [_with_room(layer[:, :, :, :longest][index], spare) for layer in self._slots.storage]
        return [(layer[:, 0], layer[:, 1]) for layer in layers], valid

    def _index(self, values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.long, device=self._device)


def slot_limits(config: ModelConfig, context: DrafterContext) -> SlotLimits:
    """Slots for as many of the engine's sequences as draft_kv_cache_gib holds; the others get no drafts."""
    return SlotLimits(
        num_slots=context.max_num_seqs,
        max_len=context.max_model_len,
        kv_bytes=int(config.draft_kv_cache_gib * 2**30),
        key="draft_kv_cache_gib",
    )


def _with_room(layer: torch.Tensor, spare: int) -> torch.Tensor:
    if not spare:
        return layer
    *sizes, length, width = layer.shape
    larger = layer.new_empty(*sizes, length + spare, width)
    larger[..., :length, :] = layer
    return larger
