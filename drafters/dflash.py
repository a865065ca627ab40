"""DFlash: a block of guesses in one forward, from the target's own features of the text (arXiv 2602.06036)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import torch

from drafters.block_config import DFlashConfig
from drafters.block_draws import Draws
from drafters.block_model import BlockModel, load_block_model
from drafters.block_state import BlockState, ContextSlots, check_features
from drafters.chains import chain, no_draft, waves
from drafters.context import DrafterContext
from drafters.model_config import ModelConfig
from drafters.slots import SlotTable
from modeling.runner import SlotLimits
from protos.messages import DraftChunk, DraftQuery

INGEST_ROWS = 1024

Ready = tuple[DraftQuery, BlockState]


class DFlash:
    """A Drafter over a BlockModel, with one slot of context a request.

    The features that come with a tail become keys and values at once; a draft is one forward of a block for all
    requests, and leaves nothing behind. One call reads INGEST_ROWS features of long tails, first come first served;
    what the last draft and the target's token added to a text does not count. More requests than slots: see SlotTable.
    """

    source = "dflash"

    def __init__(self, model: BlockModel, slots: ContextSlots, config: ModelConfig) -> None:
        self._model = model
        self._slots = slots
        self._config = config
        self._table = SlotTable(BlockState, num_slots=slots.num_slots, max_len=slots.max_len)

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        asking = {query.request_id for query in queries}
        for wave in waves(queries):
            states: list[Ready] = []
            for query in wave:
                met = self._synchronised(query, asking)
                if isinstance(met, DraftChunk):
                    yield met
                else:
                    states.append((query, met))
            yield from self._answers(states)

    def close(self, request_id: str) -> None:
        self._table.release(request_id)

    def _synchronised(self, query: DraftQuery, asking: Collection[str]) -> BlockState | DraftChunk:
        """The request's state, brought to the query's text; the answer where that cannot be."""
        state = self._table.find(query, keep=asking)
        if state is None or len(state.text) < query.tail_start:
            return no_draft(query, need_from=self._table.need_from(query, state, keep=asking))
        try:
            features = check_features(query, self._model.net.config.hidden_size)
        except ValueError as error:
            return no_draft(query, error=str(error))
        state.synchronise(query.tail_start, query.tail, features)
        return state

    @torch.inference_mode()
    def _answers(self, states: Sequence[Ready]) -> list[DraftChunk]:
        self._read([state for _, state in states])
        drafting = [each for each in states if self._limit(each[0]) > 0 and each[1].text and not len(each[1].unread)]
        drafts = self._drafts(drafting) if drafting else {}
        return [drafts.get(query.request_id) or no_draft(query) for query, _ in states]

    def _read(self, states: Sequence[BlockState]) -> None:
        """Moves unread features into the slots, as many as one call may."""
        left, taken = INGEST_ROWS, []
        for state in states:
            ordinary = len(state.unread) <= self._model.net.config.block_size + 1
            taken.append(state.take(len(state.unread) if ordinary else left))
            left -= 0 if ordinary else len(taken[-1])
        self._slots.write(states, taken)

    def _drafts(self, drafting: Sequence[Ready]) -> dict[str, DraftChunk]:
        """One chain for each, by request."""
        queries = [query for query, _ in drafting]
        limits = [self._limit(query) for query in queries]
        steps = max(limits)
        hidden, anchors = self._forward([state for _, state in drafting])
        ids, chances = self._guess(hidden[:, :steps], anchors, Draws(queries, self._model.net, steps))
        survival = chances.clamp(max=1).cumprod(dim=1)
        lengths = (survival >= self._config.min_survival).sum(dim=1).clamp(max=torch.tensor(limits, device=ids.device))
        tokens = self._model.net.target_ids(ids)
        rows = zip(queries, lengths.tolist(), tokens.tolist(), survival.tolist(), strict=True)
        return {
            query.request_id: chain(query, drawn[:length], survived[:length], source=self.source)
            for query, length, drawn, survived in rows
        }

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

    def _limit(self, query: DraftQuery) -> int:
        return min(query.budget, self._config.num_speculative_tokens)


def make_slots(model: BlockModel, config: ModelConfig, context: DrafterContext) -> ContextSlots:
    """Slots for as many of the engine's sequences as draft_kv_cache_gib holds; the others get no drafts."""
    limits = SlotLimits(
        num_slots=context.max_num_seqs,
        max_len=context.max_model_len,
        kv_bytes=int(config.draft_kv_cache_gib * 2**30),
        key="draft_kv_cache_gib",
    )
    return ContextSlots(model.net, limits)


def build_dflash(config: DFlashConfig, context: DrafterContext) -> DFlash:
    """Loads the net; ValueError where it does not fit the target, or is one for dspark."""
    model = load_block_model(config, context)
    if model.net.markov is not None or model.net.confidence is not None:
        raise ValueError(
            f"{config.weights!r} has a Markov head ({model.net.config.markov}) or a confidence head "
            f"({model.net.config.confidence}), which method dflash would ignore; use method dspark"
        )
    return DFlash(model, make_slots(model, config, context), config)
