"""Bars: how far a command is, how fast, and how long it will take; lines in their place where there is no terminal."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINES_EVERY_S = 10.0  # of a build


class LotBar(Progress):
    """Counts what comes in lots; without a terminal it prints a line for each."""

    def __init__(self, console: Console, what: str, total: int) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        speed = TextColumn("{task.fields[speed]}")
        super().__init__(what, *columns, speed, console=console, disable=not console.is_terminal)
        self._what = what
        self._lots = self.add_task("", total=total, speed="")
        self._began = time.monotonic()
        self._tokens = 0

    def saw(self, count: int, tokens: int = 0) -> None:
        """Advances by a lot of so many, with the number of its tokens where they are counted."""
        self._tokens += tokens
        rate = self._tokens / max(time.monotonic() - self._began, 1e-9)
        speed = f", {self._tokens:,} tokens, {rate:.0f} tok/s" if self._tokens else ""
        self.update(self._lots, advance=count, speed=speed.removeprefix(", "))
        if self.disable:
            task = self.tasks[0]
            self.console.print(f"{task.completed:.0f} of {task.total:.0f} {self._what}{speed}")


class BuildBar(Progress):
    """Counts what is done one by one, with its tokens; without a terminal it prints a line now and then."""

    def __init__(self, console: Console, total: int) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        super().__init__(
            "building", *columns, TextColumn("{task.fields[speed]}"), console=console, disable=not console.is_terminal
        )
        self._total = total
        self._task = self.add_task("", total=total, speed="")
        self._began = self._printed = time.monotonic()
        self._tokens = 0
        self.done = 0

    def saw(self, tokens: int) -> None:
        """One more is done, and that many tokens were written for it."""
        self.done += 1
        self._tokens += tokens
        now = time.monotonic()
        elapsed = max(now - self._began, 1e-9)
        speed = f"{self._tokens:,} tokens, {self._tokens / elapsed:.0f} tok/s"
        self.update(self._task, advance=1, speed=speed)
        if self.disable and (now - self._printed >= LINES_EVERY_S or self.done == self._total):
            self._printed = now
            left = elapsed / self.done * (self._total - self.done)
            self.console.print(f"{self.done:,} of {self._total:,} done, {speed}, {left:.0f} s left", soft_wrap=True)
