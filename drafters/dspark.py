"""DSpark: DFlash whose guesses follow from each other, and say how sure they are (arXiv 2607.05147)."""

from __future__ import annotations

import torch

from drafters.block_config import DSparkConfig
from drafters.block_model import load_block_model
from drafters.block_state import ContextSlots
from drafters.context import DrafterContext
from drafters.dflash import DFlash
from drafters.draws import Draws
from drafters.net_slots import slot_limits
from modeling.markov import VanillaMarkov


class DSpark(DFlash):
    """The block's forward is DFlash's. Then the Markov head goes through it from left to right, for all requests at
    once, and the confidence head estimates each token's chance from what precedes it."""

    source = "dspark"

    def _guess(self, hidden: torch.Tensor, anchors: torch.Tensor, draws: Draws) -> tuple[torch.Tensor, torch.Tensor]:
        net, before = self._model.net, self._model.net.draft_ids(anchors)
        logits = self._model.head(hidden).float()
        ids = draws.tokens(logits, 0) if net.markov is None else _walk(net.markov, logits, hidden, before, draws)
        if net.confidence is None:
            return ids, draws.chances(logits, ids)
        previous = torch.cat((before[:, None], ids[:, :-1]), dim=1)
        return ids, net.confidence_logits(hidden, previous).float().sigmoid()


def _walk(
    markov: VanillaMarkov, logits: torch.Tensor, hidden: torch.Tensor, previous: torch.Tensor, draws: Draws
) -> torch.Tensor:
    """Draft ids [b, m], one position after the other; adds their biases to the logits [b, m, V'].

    previous: draft ids [b] of the anchors.
    """
    state, ids = None, []
    for k in range(hidden.shape[1]):
        bias, state = markov(previous, hidden[:, k], state)
        logits[:, k] += bias
        previous = draws.tokens(logits[:, k : k + 1], k)[:, 0]
        ids.append(previous)
    return torch.stack(ids, dim=1)


def build_dspark(config: DSparkConfig, context: DrafterContext) -> DSpark:
    """Loads the net; ValueError where it does not fit the target, or has neither head."""
    model = load_block_model(config, context)
    if model.net.markov is None and model.net.confidence is None:
        raise ValueError(f"{config.weights!r} has neither a Markov nor a confidence head; use method dflash")
    return DSpark(model, ContextSlots(model.net, slot_limits(config, context)), config)
