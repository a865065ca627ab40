"""EagleDrafter: what eagle3 and p_eagle have in common, which is how a text is read."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from drafters.eagle_config import EagleConfig
from drafters.eagle_model import EagleModel
from drafters.eagle_state import EagleState, Elements, next_elements
from drafters.featured import INGEST_ROWS, FeaturedDrafter
from drafters.net_slots import NetSlots
from drafters.slots import SlotTable
from modeling.draft_attention import KeysValues

PIECE_ROWS = 256


class EagleDrafter(FeaturedDrafter[EagleState]):
    """A Drafter over an EagleModel, with one slot a request.

    What came with the tails and the first token's forward are one for all requests, ragged ones padded. Only of long
    tails all but the last element is read before, PIECE_ROWS elements at a time, which bounds the masks.
    """

    def __init__(self, model: EagleModel, slots: NetSlots, config: EagleConfig) -> None:
        table = SlotTable(EagleState, num_slots=slots.num_slots, max_len=slots.max_len)
        super().__init__(table, config, width=model.net.config.hidden_size)
        self._model = model
        self._slots = slots

    def _read(self, states: Sequence[EagleState]) -> None:
        left = INGEST_ROWS
        for state in states:
            if not self._is_ordinary(state):
                count = min(left, state.unread - 1)
                left -= count
                for start in range(0, count, PIECE_ROWS):
                    self._read_piece(state, min(PIECE_ROWS, count - start))

    def _is_ready(self, state: EagleState) -> bool:
        return state.unread > 0 and self._is_ordinary(state)

    def _is_ordinary(self, state: EagleState) -> bool:
        """Whether no more is unread than a draft and the target's token leave behind."""
        return state.unread <= self._longest + 1

    def _read_piece(self, state: EagleState, count: int) -> None:
        elements = next_elements(self._model, [state], [count])
        contexts, seen = self._slots.read([state])
        mask = elements.mask(seen).unsqueeze(1)
        own = self._model.net.context(elements.embeds, elements.hidden, elements.positions, contexts, mask)
        self._keep([state], elements, own)

    def _keep(self, states: Sequence[EagleState], elements: Elements, own: Sequence[KeysValues]) -> None:
        """Writes to the slots what a forward over the elements, and perhaps others behind them, has computed."""
        q = elements.own.shape[1]
        layers = [_flat(keys, values, elements.own, q) for keys, values in own]
        self._slots.append(states, elements.own.sum(dim=1).tolist(), layers)


def _flat(keys: torch.Tensor, values: torch.Tensor, own: torch.Tensor, q: int) -> KeysValues:
    """Keys and values [b, kv_heads, q or more, head_dim] → [kv_heads, R, head_dim] of what is no padding."""
    return keys[:, :, :q].transpose(0, 1)[:, own], values[:, :, :q].transpose(0, 1)[:, own]
