"""Progress: the bar of an offline run, with tokens per second and accepted length."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from protos.messages import RequestStats, Verdict


def accepted_length(stats: Sequence[RequestStats]) -> float:
    """Tokens emitted per verification of a draft, the target's own included; 1 where nothing was drafted."""
    drafts = sum(each.num_drafts for each in stats)
    return 1 + sum(each.accepted for each in stats) / drafts if drafts else 1.0


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
        self._stats: dict[str, RequestStats] = {}

    def __enter__(self) -> GenerationBar:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._bar.stop()

    def saw(self, verdict: Verdict) -> None:
        """Advances by a finished request, and refreshes the speed."""
        self._tokens += len(verdict.tokens)
        if verdict.stats is not None:
            self._stats[verdict.request_id] = verdict.stats
        rate = self._tokens / max(time.monotonic() - self._began, 1e-9)
        length = accepted_length(tuple(self._stats.values()))
        self._bar.update(
            self._task, advance=verdict.finish is not None, speed=f"{rate:.1f} tok/s, accepted length {length:.2f}"
        )
