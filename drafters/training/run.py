"""Run: a whole training run: steps, looks at the held-out answers, checkpoints, and the best weights."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from drafters.training.answers import Split
from drafters.training.features import FeatureSource
from drafters.training.folder import RunFolder, State
from drafters.training.held_out import Figures, HeldOut
from drafters.training.ranks import Ranks
from drafters.training.recipe import Recipe
from drafters.training.schedule import Schedule
from drafters.training.trainee import Trainee
from drafters.training.trainer import Step, Trainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Held-out answers after a step. loss: mean of the steps since the look before. tokens: read so far."""

    step: int
    loss: float
    tokens: int
    held_out: Figures

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Look:
        """From what `asdict` made of it."""
        return cls(**{**kept, "held_out": Figures(**kept["held_out"])})

    @staticmethod
    def best(looks: Sequence[Look]) -> Look:
        """That whose weights are kept: drafts lived longest, and so long for the first time."""
        return max(looks, key=lambda look: look.held_out.accepted_length)


class Observer(Protocol):
    """Is told what happens, on the leading rank only."""

    def prepares(self, what: str) -> None: ...

    def began(self, step: int, steps: int) -> None: ...

    def stepped(self, step: Step) -> None: ...

    def looked(self, looks: Sequence[Look]) -> None:
        """looks: all so far, those of earlier sittings included; the last one is new."""
        ...

    def ended(self, step: int, steps: int, looks: Sequence[Look]) -> None:
        """The sitting is over and its state kept; the run as well where step is steps."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sitting:
    """How long to train this time, and how often to keep the state. A run may take several sittings."""

    minutes: float = float("inf")
    save_minutes: float = 5.0

    def __post_init__(self) -> None:
        for name in ("minutes", "save_minutes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What a run is made of. origin: which answers and which target; a resumed run must have the same. made_by: the
    command, commit and machine, for provenance.json."""

    recipe: Recipe
    split: Split
    source: FeatureSource
    trainee: Trainee
    origin: Mapping[str, Any]
    made_by: Mapping[str, Any]


class Run:
    """Goes on from `state`, as the folder gave it; None begins. ValueError where that is the state of another run."""

    def __init__(self, material: Material, folder: RunFolder, *, ranks: Ranks, state: State | None) -> None:
        recipe, trainee, split = material.recipe, material.trainee, material.split
        self._material = material
        self._folder = folder
        self._ranks = ranks
        self._schedule = Schedule(split.train, recipe, ranks)
        self._trainer = Trainer(trainee, self._schedule, material.source, recipe, ranks=ranks)
        predictions = trainee.num_predictions
        self._held_out = HeldOut(split.held_out, material.source, recipe, predictions=predictions)
        self._past = _Past()
        if state is not None:
            _check_same(state, material)
            self._trainer.restore(state)
            self._past = _Past.of(state["past"])

    def train(self, sitting: Sitting, observer: Observer) -> None:
        """Trains to the end of the schedule or of the sitting, and keeps the state. Blocks for minutes to days."""
        began = now = saved = time.monotonic()
        if self._ranks.leads:
            observer.began(self._trainer.step, self._schedule.steps)
        while self._trainer.step < self._schedule.steps:
            before = now
            step = self._trainer.advance()
            if self._ranks.leads:
                observer.stepped(step)
                self._past.add(step, seconds=time.monotonic() - before)
                self._look_if_due(step.number, observer)
            now = time.monotonic()
            if self._ranks.leads and now - saved >= 60 * sitting.save_minutes:
                self._save()
                saved = now
            over = now - began >= 60 * sitting.minutes
            if self._ranks.agreed(leader_says=over, device=self._trainer.device):
                break
        if self._ranks.leads:
            self._save()
            observer.ended(self._trainer.step, self._schedule.steps, self._past.looks)

    def _look_if_due(self, step: int, observer: Observer) -> None:
        if step % self._material.recipe.evaluate_every and step < self._schedule.steps:
            return
        figures = self._held_out.figures(self._material.trainee, self._trainer.device)
        lived_longest = self._past.look(step, figures)
        observer.looked(self._past.looks)
        if lived_longest:
            self._folder.publish(self._material.trainee, self._provenance())

    def _save(self) -> None:
        material = self._material
        about = {"recipe": asdict(material.recipe), "origin": dict(material.origin), "past": asdict(self._past)}
        self._folder.save(about | self._trainer.state())

    def _provenance(self) -> dict[str, Any]:
        material = self._material
        return {
            **material.made_by,
            **material.origin,
            "recipe": asdict(material.recipe),
            "steps": self._schedule.steps,
            "parameters": sum(each.numel() for each in material.trainee.net.parameters()),
            "training_seconds": round(self._past.seconds),
            "tokens_read": self._past.tokens,
            "looks": [asdict(look) for look in self._past.looks],
        }


@dataclass(slots=True, kw_only=True)
class _Past:
    """What happened so far, over all sittings. losses: of the steps since the last look."""

    seconds: float = 0.0
    tokens: int = 0
    losses: list[float] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> _Past:
        """From what `asdict` made of it."""
        return cls(**{**kept, "looks": [Look.of(look) for look in kept["looks"]]})

    def add(self, step: Step, *, seconds: float) -> None:
        self.seconds += seconds
        self.tokens += step.tokens
        self.losses.append(step.loss)

    def look(self, step: int, figures: Figures) -> bool:
        """True where drafts never lived longer."""
        best = max((each.held_out.accepted_length for each in self.looks), default=0.0)
        loss = sum(self.losses) / len(self.losses)
        self.looks.append(Look(step=step, loss=loss, tokens=self.tokens, held_out=figures))
        self.losses = []
        return figures.accepted_length > best


def _check_same(state: State, material: Material) -> None:
    """A run goes on only as what it began as."""
    try:
        began, kept = Recipe(**state["recipe"]), dict(state["origin"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"the run to resume is of another version of paradraft ({error}); begin elsewhere") from error
    differences = began.differences(material.recipe)
    differences |= {
        name: (kept.get(name), now) for name, now in material.origin.items() if _matter(kept.get(name)) != _matter(now)
    }
    if "answers" in differences:
        then, now = map(_told, differences["answers"])
        raise ValueError(
            f"the run to resume began with other answers ({then}) than {now}; give those, or begin elsewhere"
        )
    if differences:
        name, (then, now) = next(iter(differences.items()))
        raise ValueError(f"{name} is {now!r}, but the run to resume began with {then!r}; keep that, or begin elsewhere")


def _matter(origin: Any) -> Any:
    """What must be the same: a file may have another name."""
    return {name: value for name, value in origin.items() if name != "file"} if isinstance(origin, Mapping) else origin


def _told(answers: Any) -> str:
    """As `services.training` describes them, in words."""
    if not isinstance(answers, Mapping):
        return repr(answers)
    return f"{answers.get('count')} of {answers.get('file')}, sha256 {answers.get('sha256', '')[:12]}"
