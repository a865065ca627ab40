"""Trainer: net, optimizer and step number: what a step changes, and what must be kept to go on from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from drafters.training.blocks import make_batch
from drafters.training.features import FeatureSource
from drafters.training.losses import LOSSES
from drafters.training.ranks import Ranks
from drafters.training.recipe import Recipe
from drafters.training.schedule import Schedule
from drafters.training.trainee import Trainee

BETAS = (0.9, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step did. tokens: of prompts and answers that the target read for it, on all ranks."""

    number: int
    loss: float
    learning_rate: float
    tokens: int


class Trainer:
    """`step` is the number of steps done."""

    def __init__(
        self, trainee: Trainee, schedule: Schedule, source: FeatureSource, recipe: Recipe, *, ranks: Ranks
    ) -> None:
        self.trainee = trainee
        self.step = 0
        self.device = next(trainee.parameters()).device
        self._schedule = schedule
        self._source = source
        self._recipe = recipe
        self._ranks = ranks
        self._model: nn.Module = trainee
        if ranks.world > 1:
            self._model = DistributedDataParallel(trainee, broadcast_buffers=False)
        self._optimizer = torch.optim.AdamW(
            trainee.parameters(), lr=recipe.learning_rate, betas=BETAS, weight_decay=recipe.weight_decay
        )

    def advance(self) -> Step:
        """One step of all ranks, which wait for each other. FloatingPointError where the loss is no number any more."""
        draw = self._schedule.draw(self.step)
        predictions = self.trainee.num_predictions
        batch = make_batch(draw.examples, self._source(draw.examples), draw.anchors, predictions=predictions)
        loss, weight = self._model(batch.to(self.device)).weighted(LOSSES[self._recipe.method], self._recipe.decay)
        total = self._ranks.total(weight)
        mean = float(self._ranks.total(loss) / total)
        if not math.isfinite(mean):
            raise FloatingPointError(f"the loss is {mean} at step {self.step}; try a lower learning_rate, or fp32")
        rate = self._schedule.learning_rate(self.step)
        # Gradients are averaged over the ranks, but the loss is a mean over all predictions of all ranks.
        self._learn(loss * self._ranks.world / total, rate)
        self.step += 1
        tokens = torch.tensor(sum(len(each.tokens) - 1 for each in draw.examples), device=self.device)
        return Step(
            number=self.step,
            loss=mean,
            learning_rate=rate,
            tokens=int(self._ranks.total(tokens)),
        )

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs; the same bits come out whether a run was interrupted or not."""
        return {"step": self.step, "net": self.trainee.net.state_dict(), "optimizer": self._optimizer.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from what `state` gave."""
        self.trainee.net.load_state_dict(state["net"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]

    def _learn(self, loss: torch.Tensor, rate: float) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.trainee.parameters(), self._recipe.clip)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
