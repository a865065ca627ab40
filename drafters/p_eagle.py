"""PEagle: eagle3's net, but all tokens of a draft come from one forward (arXiv 2602.01469)."""

from __future__ import annotations

import torch

from drafters.context import DrafterContext
from drafters.draws import Draws
from drafters.eagle_config import PEagleConfig
from drafters.eagle_drafter import EagleDrafter
from drafters.eagle_model import load_eagle_model
from drafters.eagle_state import EagleState, Elements, next_elements
from drafters.featured import Answering
from drafters.net_slots import NetSlots, slot_limits
from protos.messages import DraftChunk


class PEagle(EagleDrafter):
    """The slots of the second token and those after it ride along with the elements that are new."""

    source = "p_eagle"

    def _drafts(self, drafting: Answering[EagleState]) -> list[DraftChunk]:
        queries, states = [query for query, _ in drafting], [state for _, state in drafting]
        steps = max(self._limit(query) for query in queries)
        elements = next_elements(self._model, states, [state.unread for state in states])
        hidden = self._model.net.normed(self._forward(states, elements, steps))
        logits, draws = self._model.head(hidden).float(), Draws(queries, self._model.net, steps)
        ids = draws.tokens(logits, 0)
        return self._chains(queries, self._model.net.target_ids(ids), draws.chances(logits, ids))

    def _forward(self, states: list[EagleState], elements: Elements, steps: int) -> torch.Tensor:
        """The net's states [b, steps, d] of the slots, the first of which is the last element."""
        net = self._model.net
        slot_embeds, slot_hidden = net.slot_inputs(elements.hidden[:, -1], elements.embeds[:, -1])
        more = torch.arange(1, steps, device=elements.own.device)
        rolled = Elements(
            embeds=torch.cat((elements.embeds, slot_embeds[:, : steps - 1]), dim=1),
            hidden=torch.cat((elements.hidden, slot_hidden[:, : steps - 1]), dim=1),
            positions=torch.cat((elements.positions, elements.positions[:, -1:] + more), dim=1),
            own=torch.cat((elements.own, elements.own.new_ones(len(states), steps - 1)), dim=1),
        )
        contexts, seen = self._slots.read(states)
        found, own = net(rolled.embeds, rolled.hidden, rolled.positions, contexts, rolled.mask(seen).unsqueeze(1))
        self._keep(states, elements, own)
        slots: torch.Tensor = found[:, -steps:]
        return slots


def build_p_eagle(config: PEagleConfig, context: DrafterContext) -> PEagle:
    """Loads the net; ValueError where it does not fit the target, or has no slots."""
    model = load_eagle_model(config, context)
    return PEagle(model, NetSlots(model.net, slot_limits(config, context)), config)
