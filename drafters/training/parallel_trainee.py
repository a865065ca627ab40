"""ParallelTrainee: p_eagle's net as it is trained: the slots of many rollouts of an example in one forward."""

from __future__ import annotations

import torch

from drafters.training.blocks import Batch
from drafters.training.eagle_trainee import EagleTrainee


class ParallelTrainee(EagleTrainee):
    """A slot sees the text up to its anchor, and the slots before it in its own rollout (arXiv 2602.01469)."""

    @property
    def num_predictions(self) -> int:
        return self.net.config.num_slots

    def states(self, batch: Batch) -> torch.Tensor:
        """Slot 1 is the element of the anchor."""
        text, slots = self.text(batch), self.num_predictions
        slot_embeds, slot_hidden = self.net.slot_inputs(text.features, text.embeds)
        embeds = torch.cat((text.embeds.unsqueeze(-2), slot_embeds), dim=-2)
        hidden = torch.cat((text.features.unsqueeze(-2), slot_hidden), dim=-2)
        steps = torch.arange(slots, device=hidden.device)
        place = torch.arange(batch.anchors.shape[1] * slots, device=hidden.device)
        own = (place[:, None] // slots == place // slots) & (place <= place[:, None])
        mask = torch.cat((text.seen.repeat_interleave(slots, dim=1), own.expand(len(hidden), -1, -1)), dim=-1)
        positions = (batch.anchors[..., None] + steps).flatten(1)
        states, _ = self.net(embeds.flatten(1, 2), hidden.flatten(1, 2), positions, text.contexts, mask.unsqueeze(1))
        return states.view(hidden.shape)  # type: ignore[no-any-return]
