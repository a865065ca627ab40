"""Progress: the bar of an offline run, with tokens per second and accepted length."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from protos.messages import Verdict
from protos.speculation_counts import SpeculationCounts


class GenerationBar:
    """Counts verdicts and shows them on standard error; a context manager. Disabled, it only counts."""

    def __init__(self, total: int, *, enabled: bool) -> None:
        self._bar = Progress(
            TextColumn("generating"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[speed]}"),
            console=Console(stderr=True),
            disable=not enabled,
        )
        self._task = self._bar.add_task("", total=total, speed="")
        self._began = time.monotonic()
        self._tokens = 0
        self._finished = SpeculationCounts()
        self._running: dict[str, SpeculationCounts] = {}

    def __enter__(self) -> GenerationBar:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._bar.stop()

    def saw(self, verdict: Verdict) -> None:
        """Advances by a finished request, and refreshes the speed."""
        self._tokens += len(verdict.tokens)
        self._running[verdict.request_id] = verdict.stats.speculation
        if verdict.finish is not None:
            self._finished += self._running.pop(verdict.request_id)
        rate = self._tokens / max(time.monotonic() - self._began, 1e-9)
        length = sum(self._running.values(), self._finished).accepted_length
        self._bar.update(
            self._task, advance=verdict.finish is not None, speed=f"{rate:.1f} tok/s, accepted length {length:.2f}"
        )
