"""DFlash: a block of guesses in one forward, from the target's own features of the text (arXiv 2602.06036)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from drafters.block_config import DFlashConfig
from drafters.block_model import BlockModel, load_block_model
from drafters.block_state import BlockState, ContextSlots
from drafters.context import DrafterContext
from drafters.draws import Draws
from drafters.featured import INGEST_ROWS, Answering, FeaturedDrafter
from drafters.model_config import ModelConfig
from drafters.net_slots import slot_limits
from drafters.slots import SlotTable
from protos.messages import DraftChunk


class DFlash(FeaturedDrafter[BlockState]):
    """A Drafter over a BlockModel, with one slot of context a request.

    The features that come with a tail become keys and values at once; a draft is one forward of a block for all
    requests, and leaves nothing behind.
    """

    source = "dflash"

    def __init__(self, model: BlockModel, slots: ContextSlots, config: ModelConfig) -> None:
        table = SlotTable(BlockState, num_slots=slots.num_slots, max_len=slots.max_len)
        super().__init__(table, config, width=model.net.config.hidden_size)
        self._model = model
        self._slots = slots

    def _read(self, states: Sequence[BlockState]) -> None:
        left, taken = INGEST_ROWS, []
        for state in states:
            ordinary = len(state.unread) <= self._model.net.config.block_size + 1
            taken.append(state.take(len(state.unread) if ordinary else left))
            left -= 0 if ordinary else len(taken[-1])
        self._slots.write(states, taken)

    def _is_ready(self, state: BlockState) -> bool:
        return bool(state.text) and not len(state.unread)

    def _drafts(self, drafting: Answering[BlockState]) -> list[DraftChunk]:
        queries = [query for query, _ in drafting]
        steps = max(self._limit(query) for query in queries)
        hidden, anchors = self._forward([state for _, state in drafting])
        ids, chances = self._guess(hidden[:, :steps], anchors, Draws(queries, self._model.net, steps))
        return self._chains(queries, self._model.net.target_ids(ids), chances)

    def _forward(self, states: Sequence[BlockState]) -> tuple[torch.Tensor, torch.Tensor]:
        """States of the predictions [b, P, d] after the anchors [b], and the anchors."""
        net, device = self._model.net, self._model.device
        contexts, valid = self._slots.read(states)
        block = torch.arange(net.config.block_size, device=device)
        anchors = torch.tensor([state.text[-1] for state in states], device=device)
        places = torch.tensor([len(state.text) - 1 for state in states], device=device)
        seen = torch.cat((valid, valid.new_ones(len(states), len(block))), dim=1)
        mask = seen[:, None, None].expand(-1, 1, len(block), -1)
        hidden = net.block(net.inputs(anchors, self._model.embedding), places[:, None] + block, contexts, mask)
        return hidden[:, net.config.first_prediction :], anchors

    def _guess(
        self,
        hidden: torch.Tensor,
        anchors: torch.Tensor,  # noqa: ARG002  for those that go on from them
        draws: Draws,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draft ids [b, m] from states [b, m, d], and for each the chance to be accepted once those before it are."""
        logits = self._model.head(hidden).float()
        ids = draws.tokens(logits, 0)
        return ids, draws.chances(logits, ids)


def build_dflash(config: DFlashConfig, context: DrafterContext) -> DFlash:
    """Loads the net; ValueError where it does not fit the target, or is one for dspark."""
    model = load_block_model(config, context)
    if model.net.markov is not None or model.net.confidence is not None:
        raise ValueError(
            f"{config.weights!r} has a Markov head ({model.net.config.markov}) or a confidence head "
            f"({model.net.config.confidence}), which method dflash would ignore; use method dspark"
        )
    return DFlash(model, ContextSlots(model.net, slot_limits(config, context)), config)
