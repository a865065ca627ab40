"""Whole runs on the tiny target: what tests of runs share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from drafters.training.answers import Split
from drafters.training.assembly import make_trainee
from drafters.training.features import TargetFeatures
from drafters.training.folder import RunFolder
from drafters.training.held_out import Figures
from drafters.training.ranks import Ranks
from drafters.training.recipe import Recipe
from drafters.training.run import Look, Material, Run, Sitting
from drafters.training.trainer import Step
from modeling.target import Target


@dataclass(kw_only=True)
class Seen:
    """An Observer that remembers."""

    steps: list[Step] = field(default_factory=list)
    looks: dict[int, Figures] = field(default_factory=dict)
    all_looks: list[int] = field(default_factory=list)

    def prepares(self, what: str) -> None: ...

    def began(self, step: int, steps: int) -> None:
        self.begins, self.ends = step, steps

    def stepped(self, step: Step) -> None:
        self.steps.append(step)

    def looked(self, looks: Sequence[Look]) -> None:
        self.all_looks = [look.step for look in looks]
        self.looks[looks[-1].step] = looks[-1].held_out

    def ended(self, step: int, steps: int, looks: Sequence[Look]) -> None:
        self.end = step


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A target and answers, from which any number of runs can be made."""

    target: Target
    split: Split
    recipe: Recipe

    def material(self, recipe: Recipe, origin: dict[str, Any]) -> Material:
        trainee = make_trainee(recipe, self.target, self.split, revision=None)
        layers = trainee.feature_layers
        return Material(
            recipe=recipe,
            split=self.split,
            source=TargetFeatures(self.target, layers, law_size=recipe.law_size),
            trainee=trainee,
            origin=origin,
            made_by={"command": "test"},
        )

    def train(
        self,
        folder: Path,
        *,
        recipe: Recipe | None = None,
        minutes: float = 60,
        resume: bool = False,
        ranks: Ranks | None = None,
        answers: object = "these",
    ) -> Seen:
        run_folder, seen, ranks = RunFolder(folder), Seen(), ranks or Ranks()
        with run_folder.held() if ranks.leads else nullcontext():
            state = run_folder.open(resume=resume)
            material = self.material(recipe or self.recipe, {"answers": answers})
            run = Run(material, run_folder, ranks=ranks, state=state)
            run.train(Sitting(minutes=minutes, save_minutes=60), seen)
        return seen


def state_of(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(folder / "training.pt", weights_only=True)
    return state


def flat(value: object) -> list[object]:
    """All leaves of nested dicts and lists, in order."""
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in (key, *flat(each))]
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in flat(each)]
    return [value]


def same(a: object, b: object) -> bool:
    """Equal to the last bit, tensors included."""
    return all(
        torch.equal(x, y) if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) else x == y
        for x, y in zip(flat(a), flat(b), strict=True)
    )
