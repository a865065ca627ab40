"""TrainView: a training run on the terminal: a bar with the loss, and a line for each look at held-out answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from drafters.training.run import Look
from drafters.training.trainer import Step

SMOOTHING = 0.95


class TrainView:
    """A `drafters.training.run.Observer`; a context manager. Without a terminal only the lines are printed.

    out: where the weights go. serve: the command that serves them.
    """

    def __init__(self, console: Console, *, out: Path, serve: str) -> None:
        self._console = console
        self._out = out
        self._serve = serve
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", state="")
        self._since = time.monotonic()
        self._tokens = 0
        self._loss: float | None = None
        self._length = ""

    def __enter__(self) -> TrainView:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._bar.stop()

    def prepares(self, what: str) -> None:
        """What is done before the first step."""
        self._console.print(what, style="dim", soft_wrap=True)

    def began(self, step: int, steps: int) -> None:
        """Starts bar and clock."""
        self._console.print(f"step {step} of {steps}")
        self._bar.update(self._task, completed=step, total=steps)
        self._bar.start()
        self._since = time.monotonic()

    def stepped(self, step: Step) -> None:
        """Advances the bar."""
        self._tokens += step.tokens
        self._loss = step.loss if self._loss is None else SMOOTHING * self._loss + (1 - SMOOTHING) * step.loss
        state = f"{self._state()}, learning rate {step.learning_rate:.1e}{self._length}"
        self._bar.update(self._task, completed=step.number, state=state)

    def looked(self, looks: Sequence[Look]) -> None:
        """One line for the log."""
        figures = looks[-1].held_out
        self._length = f", accepted length {figures.accepted_length:.2f}"
        domains = ", ".join(f"{name} {length:.2f}" for name, length in figures.by_domain.items())
        lengths = f"{figures.accepted_length:.3f}" + (f" ({domains})" if domains else "")
        positions = " ".join(f"{rate:.0%}" for rate in figures.by_position)
        self._console.print(
            f"step {looks[-1].step}: {self._state()}; held out: loss {figures.loss:.3f}, accepted length {lengths}, "
            f"drawn {figures.expected_length:.3f}, by position {positions}",
            soft_wrap=True,
        )

    def ended(self, step: int, steps: int, looks: Sequence[Look]) -> None:
        """Where the run stands, which weights there are, and what to do next."""
        self._bar.stop()
        if step < steps:
            self._say(f"stopped at step {step} of {steps}; the same command with --resume goes on")
        if not looks:
            self._say("no weights yet: they are kept at the first look at held-out answers")
            return
        best = Look.best(looks)
        length = f"accepted length {best.held_out.accepted_length:.3f}"
        self._say(f"{self._out} holds the weights of step {best.step}, the best of {len(looks)} looks ({length})")
        if step == steps:
            self._say(f"serve them: {self._serve}")

    def _say(self, sentence: str) -> None:
        self._console.print(sentence, soft_wrap=True, markup=False)

    def _state(self) -> str:
        rate = self._tokens / max(time.monotonic() - self._since, 1e-9)
        return f"loss {self._loss or 0:.3f}, {rate:,.0f} tok/s"
