"""BlockState and ContextSlots: the context of each request as keys and values of all layers of a block net."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from drafters.agreement import agreeing
from drafters.featured import Features, joined
from drafters.net_slots import NetSlots
from modeling.block_net import BlockNet
from modeling.runner import SlotLimits
from protos.arrays import BFLOAT16
from protos.messages import Tokens


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
        """Truncates the text to `tail_start`, appends the tail, and notes its features (see DraftQuery)."""
        same = agreeing(self.text, tail_start, tail)
        self.text[tail_start:] = tail
        first = max(tail_start - 1, 0)
        self.rows = min(self.rows, same, max(len(self.text) - 1, 0))
        still_unread, news = self.unread[: max(first - self.rows, 0)], features[max(self.rows - first, 0) :]
        self.unread = np.concatenate((still_unread, news)) if len(still_unread) else news

    def take(self, most: int) -> Features:
        """At most that many of the unread features, which the caller writes to the slot from row `rows` on."""
        taken, self.unread = self.unread[:most], self.unread[most:]
        return taken


class ContextSlots(NetSlots):
    """KV slots of a block net. Keys and values of a block itself are never kept."""

    def __init__(self, net: BlockNet, limits: SlotLimits) -> None:
        super().__init__(net, limits)
        self._net = net

    def write(self, states: Sequence[BlockState], features: Sequence[Features]) -> None:
        """Features of each state's next rows, turned into keys and values by one product a layer for all of them."""
        counts = [len(each) for each in features]
        if sum(counts):
            given = joined(features).to(self._device, self._net.dtype)
            self.append(states, counts, self._net.context(given, self.next_rows(states, counts)))
