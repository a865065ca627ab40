"""Rollout: an EAGLE net that goes on from several texts at once, one forward after the other."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from drafters.net_slots import Filled, NetSlots
from modeling.draft_attention import KeysValues
from modeling.eagle_net import EagleNet


class Rollout:
    """Copies of the keys and values of b texts; each forward appends its own, and none reaches the slots.

    seen: which of the n rows that the texts begin with are their own, bool [b, n].
    """

    def __init__(self, net: EagleNet, slots: NetSlots, states: Sequence[Filled], *, room: int) -> None:
        """room: rows that all forwards together may append."""
        self._net = net
        self._layers, self.seen = slots.read(states, spare=room)
        self._length = self.seen.shape[1]

    def forward(
        self, embeds: torch.Tensor, hidden: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, tuple[KeysValues, ...]]:
        """See EagleNet.forward. mask: bool [b, q, rows before + q], of all rows that there are."""
        start, self._length = self._length, self._length + embeds.shape[1]
        contexts = [(keys[:, :, :start], values[:, :, :start]) for keys, values in self._layers]
        states, own = self._net(embeds, hidden, positions, contexts, mask.unsqueeze(1))
        for layer, news in zip(self._layers, own, strict=True):
            for rows, new in zip(layer, news, strict=True):
                rows[:, :, start : self._length] = new
        return states, own
