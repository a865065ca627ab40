"""The grid ms(b, k): one packed forward of b sequences with k tokens each, after a fixed context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from benchmarks.harness.report import Report
from benchmarks.harness.trials import Samples, Trial, interleave, timed
from modeling.target import Target
from modeling.work import Runner, Work

CONTEXT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Milliseconds by dtype and (b, k)."""

    batches: tuple[int, ...]
    lengths: tuple[int, ...]
    cells: dict[str, Samples]

    def ms(self, dtype: str, b: int, k: int) -> Samples:
        return self.cells[f"{dtype} {b},{k}"]

    def add_to(self, report: Report, dtype: str) -> None:
        """Two tables: the grid, and what more tokens of one sequence cost relative to one token."""
        for b in self.batches:
            row = {f"k={k}": self.ms(dtype, b, k).median for k in self.lengths}
            report.add(f"ms of one forward, context {CONTEXT}, {dtype}", {"b": b} | row)
        for k in self.lengths[1:]:
            ratio = self.ms(dtype, 1, k).over(self.ms(dtype, 1, 1))
            cost = {"dtype": dtype, "k": k, "ratio": ratio.median, "spread": ratio.spread}
            report.add("k tokens over one token, b=1", cost)


def measure_grid(
    targets: Mapping[str, Target], batches: tuple[int, ...], lengths: tuple[int, ...], *, rounds: int
) -> Grid:
    """All cells of all dtypes take turns."""
    trials: dict[str, Trial] = {}
    for dtype, target in targets.items():
        for slot in range(max(batches)):
            target.runner.forward([make_work(target.runner, slot, start=0, length=CONTEXT, num_logits=0)])
        trials |= {f"{dtype} {b},{k}": timed(_forward(target, b, k)) for b in batches for k in lengths}
    return Grid(batches=batches, lengths=lengths, cells=interleave(trials, rounds=rounds, warmup=2))


def make_works(runner: Runner, b: int, k: int) -> Sequence[Work]:
    """One cell: k tokens after the context in each of the first b slots, all their logits."""
    return [make_work(runner, slot, start=CONTEXT, length=k, num_logits=k) for slot in range(b)]


def make_work(runner: Runner, slot: int, *, start: int, length: int, num_logits: int) -> Work:
    """Random tokens, the same for a slot every time."""
    generator = torch.Generator().manual_seed(slot)
    tokens = torch.randint(runner.vocab_size, (length,), generator=generator).tolist()
    return Work(slot=slot, start=start, tokens=tuple(tokens), num_logits=num_logits)


def _forward(target: Target, b: int, k: int) -> Trial:
    works = make_works(target.runner, b, k)

    def run() -> float:
        return float(target.runner.forward(works).logits[0, 0])  # reading a number waits for an accelerator

    return run
