"""BlockState and ContextSlots: the context of each request as keys and values of all layers of a block net."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from modeling.block_net import BlockNet
from modeling.draft_attention import KeysValues
from modeling.runner import SlotLimits
from modeling.slots import KVShape, KVSlots
from protos.arrays import BFLOAT16
from protos.messages import DraftQuery, Tokens

Features = NDArray[np.generic]


@dataclass(slots=True)
class BlockState:
    """A request's text. All its tokens but the last have features: the first `rows` lie in the slot as keys and values,
    those of `unread` follow. What else is in the slot is left from a text that was cut, and will be overwritten."""

    slot: int
    tenant: str
    text: list[int] = field(default_factory=list)
    rows: int = 0
    unread: Features = field(default_factory=lambda: np.empty((0, 0), BFLOAT16))

    def synchronise(self, tail_start: int, tail: Tokens, features: Features) -> None:
        """Truncates the text to `tail_start`, appends the tail, and notes its features (see DraftQuery).

        Features follow from the text: where a tail repeats what was there, as after a lost answer, rows stay.
        """
        same = tail_start
        for held, token in zip(self.text[tail_start:], tail, strict=False):
            if held != token:
                break
            same += 1
        self.text[tail_start:] = tail
        first = max(tail_start - 1, 0)
        self.rows = min(self.rows, same, max(len(self.text) - 1, 0))
        still_unread, news = self.unread[: max(first - self.rows, 0)], features[max(self.rows - first, 0) :]
        self.unread = np.concatenate((still_unread, news)) if len(still_unread) else news

    def take(self, most: int) -> Features:
        """At most that many of the unread features, which the caller writes to the slot from row `rows` on."""
        taken, self.unread = self.unread[:most], self.unread[most:]
        return taken


def check_features(query: DraftQuery, width: int) -> Features:
    """The features of a query; ValueError where they are not those of its tail."""
    wanted = (max(len(query.tail) - (query.tail_start == 0), 0), width)
    features = np.empty((0, width), BFLOAT16) if query.features is None else query.features
    if features.shape != wanted or features.dtype != BFLOAT16:
        raise ValueError(
            f"a tail of {len(query.tail)} tokens from position {query.tail_start} came with features of shape "
            f"{features.shape} in {features.dtype.names or features.dtype}; this drafter needs {wanted} in bfloat16"
        )
    return features


class ContextSlots:
    """KV slots of a block net. Keys and values of a block itself are never kept."""

    def __init__(self, net: BlockNet, limits: SlotLimits) -> None:
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
        self._net = net
        self._device = net.norm.weight.device
        self._slots = KVSlots(shape, num_slots=self.num_slots, max_len=self.max_len, device=self._device)

    def write(self, states: Sequence[BlockState], features: Sequence[Features]) -> None:
        """Features of each state's next rows, turned into keys and values by one product a layer for all of them."""
        counts = [len(each) for each in features]
        if not sum(counts):
            return
        joined = torch.from_numpy(np.concatenate(features).view(np.uint16)).view(torch.bfloat16)
        pairs = list(zip(states, counts, strict=True))
        slots = self._index([state.slot for state, count in pairs for _ in range(count)])
        rows = self._index([state.rows + i for state, count in pairs for i in range(count)])
        contexts = self._net.context(joined.to(self._device, self._net.dtype), rows)
        for layer, context in enumerate(contexts):
            self._slots.write(layer, slots, rows, torch.stack(context).permute(2, 0, 1, 3))
        for state, count in pairs:
            state.rows += count

    def read(self, states: Sequence[BlockState]) -> tuple[list[KeysValues], torch.Tensor]:
        """Each layer's keys and values [b, kv_heads, n, head_dim], padded to the longest, and which of the n rows are
        a state's own, bool [b, n]."""
        lengths = [state.rows for state in states]
        index, longest = self._index([state.slot for state in states]), max(lengths)
        valid = torch.arange(longest, device=self._device) < self._index(lengths)[:, None]
        layers = [layer[:, :, :, :longest][index] for layer in self._slots.storage]
        return [(layer[:, 0], layer[:, 1]) for layer in layers], valid

    def _index(self, values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.long, device=self._device)
