"""Eagle3: drafts token by token on the target's features and then on its own states (arXiv 2503.01840)."""

from __future__ import annotations

import torch

from drafters.context import DrafterContext
from drafters.draws import Draws
from drafters.eagle_config import Eagle3Config
from drafters.eagle_drafter import EagleDrafter
from drafters.eagle_model import EagleModel, load_eagle_model
from drafters.eagle_state import EagleState, next_elements
from drafters.eagle_tree import EagleTree
from drafters.featured import Answering
from drafters.net_slots import NetSlots, slot_limits
from drafters.rollout import Rollout
from protos.messages import DraftChunk


class Eagle3(EagleDrafter):
    """One forward a level for all requests. With topk 1 a draft is a chain, above that a tree."""

    source = "eagle3"

    def __init__(self, model: EagleModel, slots: NetSlots, config: Eagle3Config) -> None:
        super().__init__(model, slots, config)
        self._width = config.topk
        self._levels = config.levels

    def _drafts(self, drafting: Answering[EagleState]) -> list[DraftChunk]:
        limits = [self._limit(query) for query, _ in drafting]
        tree = self._grown(drafting, min(self._levels, max(limits)))
        return [
            DraftChunk(
                request_id=query.request_id,
                base_len=query.base_len,
                tokens=tuple(tokens),
                parents=tuple(parents),
                survival=tuple(survival),
                source=self.source,
            )
            for (query, _), (tokens, parents, survival) in zip(
                drafting, tree.best(limits, self._min_survival), strict=True
            )
        ]

    def _grown(self, drafting: Answering[EagleState], levels: int) -> EagleTree:
        states, net = [state for _, state in drafting], self._model.net
        elements = next_elements(self._model, states, [state.unread for state in states])
        room = elements.own.shape[1] + (levels - 1) * self._width
        rollout = Rollout(net, self._slots, states, room=room)
        mask = elements.mask(rollout.seen)
        hidden, own = rollout.forward(elements.embeds, elements.hidden, elements.positions, mask)
        self._keep(states, elements, own)
        hidden, mask, place = hidden[:, -1:], mask[:, -1:], elements.positions[:, -1:]
        draws = Draws([query for query, _ in drafting], net, levels)
        tree = EagleTree(batch=len(states), width=self._width, device=self._model.device)
        for step in range(levels):
            ids, chances = draws.children(self._model.head(net.normed(hidden)).float(), step, self._width)
            level = tree.grow(net.target_ids(ids), chances)
            if step + 1 == levels or not tree.reaches(self._min_survival):
                break
            hidden, mask, place = _rows(hidden, level.parents), _rows(mask, level.parents), place + 1
            mask = torch.cat((mask, _alone(mask)), dim=-1)
            positions = place.expand_as(level.tokens)
            hidden, _ = rollout.forward(self._model.embed(level.tokens), hidden, positions, mask)
        return tree


def build_eagle3(config: Eagle3Config, context: DrafterContext) -> Eagle3:
    """Loads the net; ValueError where it does not fit the target, or is one for p_eagle."""
    model = load_eagle_model(config, context)
    return Eagle3(model, NetSlots(model.net, slot_limits(config, context)), config)


def _rows(of: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Rows [b, w, ...] of [b, m, ...] by index [b, w]."""
    return of.gather(1, index.unsqueeze(-1).expand(-1, -1, of.shape[-1]))


def _alone(mask: torch.Tensor) -> torch.Tensor:
    """[b, w, w]: each of w new rows sees itself."""
    return torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device).expand(len(mask), -1, -1)
