"""Plots: an observer that draws how a run went, anew at each look at the held-out answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drafters.training.extras import require
from drafters.training.run import Look, Observer
from drafters.training.trainer import Step

FILE = "training.png"


class Plots:
    """Draws into FILE of a run's folder, and tells everything to `observer` as well. ValueError without matplotlib."""

    def __init__(self, folder: Path, observer: Observer) -> None:
        require("matplotlib", "a plot")
        self._file = folder / FILE
        self._observer = observer

    def prepares(self, what: str) -> None:
        self._observer.prepares(what)

    def began(self, step: int, steps: int) -> None:
        self._observer.began(step, steps)

    def stepped(self, step: Step) -> None:
        self._observer.stepped(step)

    def looked(self, looks: Sequence[Look]) -> None:
        self._observer.looked(looks)
        work = self._file.with_suffix(".new.png")
        draw(looks).savefig(work, dpi=110)
        work.replace(self._file)

    def ended(self, step: int, steps: int, looks: Sequence[Look]) -> None:
        self._observer.ended(step, steps, looks)


def draw(looks: Sequence[Look]) -> Any:
    """Loss, accepted length and acceptance by position over the steps, side by side: a matplotlib Figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4.5), layout="constrained")
    loss, length, positions = figure.subplots(1, 3)
    steps = [look.step for look in looks]
    loss.plot(steps, [look.loss for look in looks], label="training")
    loss.plot(steps, [look.held_out.loss for look in looks], label="held out")
    loss.set_title("loss")
    length.plot(steps, [look.held_out.accepted_length for look in looks], label="likeliest drafts", linewidth=2)
    length.plot(steps, [look.held_out.expected_length for look in looks], label="drawn at temperature 1", linewidth=2)
    for domain in looks[-1].held_out.by_domain:
        lengths = [look.held_out.by_domain[domain] for look in looks]
        length.plot(steps, lengths, label=domain, linewidth=1, linestyle="--")
    length.set_title("accepted length, held out")
    for k, _ in enumerate(looks[-1].held_out.by_position):
        rates = [look.held_out.by_position[k] for look in looks]
        positions.plot(steps, rates, label=f"{k + 1}", color=f"C{k % 10}")
    positions.set_title("acceptance by position, held out")
    for axes in (loss, length, positions):
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    return figure
