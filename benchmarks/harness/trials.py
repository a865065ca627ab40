"""Interleaved trials: A and B take turns in one process, so that what slows the machine slows both."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Trial = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What one cell gave, one value a round, in rounds' order."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Half the range between the quartiles, over the median: 0.02 means that half the values lie within ±2 %."""
        if len(self.values) < 2 or self.median == 0:
            return 0.0
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return (high - low) / 2 / abs(self.median)

    def percentile(self, percent: float) -> float:
        """Nearest-rank percentile."""
        ranked = sorted(self.values)
        return ranked[max(0, math.ceil(percent / 100 * len(ranked)) - 1)]

    def over(self, other: Samples) -> Samples:
        """Ratio to another cell, round by round: both of a round saw the same machine."""
        return Samples(values=tuple(a / b for a, b in zip(self.values, other.values, strict=True)))


def interleave(cells: Mapping[str, Trial], *, rounds: int, warmup: int = 1) -> dict[str, Samples]:
    """Runs every cell once a round and keeps what it returned; every second round goes backwards: drift cancels."""
    gathered: dict[str, list[float]] = {name: [] for name in cells}
    for round_ in range(-warmup, rounds):
        order = list(cells) if round_ % 2 == 0 else list(cells)[::-1]
        for name in order:
            value = cells[name]()
            if round_ >= 0:
                gathered[name].append(value)
    return {name: Samples(values=tuple(values)) for name, values in gathered.items()}


def timed(work: Callable[[], object]) -> Trial:
    """A trial whose value is the milliseconds that `work` takes."""

    def trial() -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) * 1e3

    return trial
