"""Schedule: which examples a step sees, where their blocks begin, and how fast it learns: all from the step's number.

Nothing here remembers anything, so a run that resumes at a step repeats exactly what an uninterrupted one does there,
on any number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from drafters.training.anchors import draw_anchors, generator_for
from drafters.training.answers import Example
from drafters.training.ranks import Ranks
from drafters.training.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One rank's part of a step: examples, and the anchors in each."""

    examples: list[Example]
    anchors: list[torch.Tensor]


class Schedule:
    """ValueError where the examples make no whole batch, or the ranks cannot share one evenly."""

    def __init__(self, examples: Sequence[Example], recipe: Recipe, ranks: Ranks) -> None:
        if len(examples) < recipe.batch:
            raise ValueError(f"{len(examples)} answers to train on make no batch of {recipe.batch}; lower batch")
        if recipe.batch % ranks.world:
            raise ValueError(f"batch is {recipe.batch}, which {ranks.world} processes cannot share evenly")
        self._examples = examples
        self._recipe = recipe
        self._ranks = ranks
        self.steps_per_epoch = len(examples) // recipe.batch
        self.steps = max(1, round(recipe.epochs * self.steps_per_epoch))

    def draw(self, step: int) -> Draw:
        """Every epoch goes through all examples in another order; the few that fill no batch rest until the next."""
        recipe = self._recipe
        epoch, place = divmod(step, self.steps_per_epoch)
        order = torch.randperm(len(self._examples), generator=generator_for(recipe.seed, epoch)).tolist()
        chosen = order[place * recipe.batch : (place + 1) * recipe.batch][self._ranks.rank :: self._ranks.world]
        anchors = [
            draw_anchors(self._examples[index], recipe.anchors, generator_for(recipe.seed, epoch, index))
            for index in chosen
        ]
        return Draw(examples=[self._examples[index] for index in chosen], anchors=anchors)

    def learning_rate(self, step: int) -> float:
        """Rises in a line to the recipe's over the warm-up, then falls as a half cosine to almost zero."""
        warm = max(1, round(self._recipe.warmup * self.steps))
        if step < warm:
            return self._recipe.learning_rate * (step + 1) / warm
        passed = (step - warm) / max(1, self.steps - warm)
        return self._recipe.learning_rate * (1 + math.cos(math.pi * passed)) / 2
