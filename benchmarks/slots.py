"""slots: what parallel drafting costs: one matmul for all slots or a loop over heads, and a round of each method."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import torch

from benchmarks.harness.baseline import DTYPES
from benchmarks.harness.loading import load
from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.peak_memory import peak_memory
from benchmarks.harness.random_drafters import Shape, draft_round, random_drafter
from benchmarks.harness.report import Report
from benchmarks.harness.trials import Trial, interleave, timed
from modeling.target import Target

SLOTS = (1, 2, 4, 8)
FEW = (1, 2)
BATCHES = (1, 4)
LAYERS = (1, 2, 4)
BLOCKS = (4, 7, 10, 15)
STEPS = (1, 2, 4, 7, 8)
WAYS = ("fused", "loop")


def main(argv: Sequence[str] | None = None) -> int:
    """Weights are random: time and memory do not depend on them. Within a table all cells take turns."""
    options = read_options(make_parser("slots", __doc__), argv, rounds=15)
    report = Report(options)
    for dtype in options.dtypes:
        target = load(options, dtype, slots=max(BATCHES), max_len=512)
        _heads(options, report, dtype, target.config.hidden_size)
        for batch in BATCHES[:1] if options.quick else BATCHES:
            _rounds(options, report, target, dtype, batch)
    report.finish()
    return 0


def _heads(options: Options, report: Report, dtype: str, hidden: int) -> None:
    cells = list(product(FEW, (1,)) if options.quick else product(SLOTS, BATCHES))
    trials: dict[str, Trial] = {
        f"{way} {slots} {batch}": timed(project(way, slots, batch, hidden, dtype))
        for (slots, batch), way in product(cells, WAYS)
    }
    measured = interleave(trials, rounds=options.rounds, warmup=3)
    for slots, batch in cells:
        fused, loop = (measured[f"{way} {slots} {batch}"] for way in WAYS)
        peaks = {f"{way} peak MiB": peak_memory(project_once, way, slots, batch, hidden, dtype) for way in WAYS}
        row = {"dtype": dtype, "slots": slots, "batch": batch}
        times = {"fused ms": fused.median, "loop ms": loop.median, "fused/loop": fused.over(loop).median}
        report.add("hidden states of all slots from one", row | times | peaks)


def project(way: str, slots: int, batch: int, hidden: int, dtype: str) -> Callable[[], object]:
    """[batch, d] → `slots` states of d each: by one matmul, or head by head."""
    state = torch.randn(batch, hidden, dtype=DTYPES[dtype])
    sizes = [slots * hidden] if way == "fused" else [hidden] * slots
    heads = [torch.nn.Linear(hidden, size, bias=False, dtype=DTYPES[dtype]) for size in sizes]

    @torch.inference_mode()
    def run() -> torch.Tensor:
        return torch.cat([head(state) for head in heads], dim=-1)

    return run


def project_once(way: str, slots: int, batch: int, hidden: int, dtype: str) -> None:
    """All of `project` in a process of its own."""
    project(way, slots, batch, hidden, dtype)()


def _rounds(options: Options, report: Report, target: Target, dtype: str, batch: int) -> None:
    with tempfile.TemporaryDirectory(prefix="random-nets-") as name:
        shapes = list(_shapes(options))
        trials: dict[str, Trial] = {}
        for number, shape in enumerate(shapes):
            drafter = random_drafter(shape, target, dtype, Path(name, str(number)))
            trials[str(number)] = timed(draft_round(drafter, shape, target, batch=batch))
        measured = interleave(trials, rounds=options.rounds, warmup=2)
    by_shape = {shape: measured[str(number)] for number, shape in enumerate(shapes)}
    for shape, samples in by_shape.items():
        rival = _rival(shape)
        row = {"dtype": dtype, "batch": batch, "layers": shape.layers, "tokens": shape.length, "method": shape.method}
        row |= {"slot inputs": shape.slots if shape.method == "p_eagle" else None, "ms": samples.median}
        row |= {"spread": samples.spread, f"over {rival.method}": samples.over(by_shape[rival]).median}
        report.add(f"a draft round, {'eagle3 and p_eagle' if rival.method == 'eagle3' else 'dflash and dspark'}", row)


def _shapes(options: Options) -> Iterator[Shape]:
    layers = (1,) if options.quick else LAYERS
    for count, length in product(layers, (2, 4) if options.quick else STEPS):
        yield Shape(method="eagle3", length=length, layers=count)
        if length > 1:  # a net of one slot is eagle3's
            yield Shape(method="p_eagle", length=length, layers=count)
            yield Shape(method="p_eagle", length=length, layers=count, slots="mask")
    for count, length in product(layers, (4,) if options.quick else BLOCKS):
        yield Shape(method="dflash", length=length, layers=count)
        yield Shape(method="dspark", length=length, layers=count)


def _rival(shape: Shape) -> Shape:
    """Of the same size, what a shape is compared with."""
    method = "eagle3" if shape.method in {"eagle3", "p_eagle"} else "dflash"
    return Shape(method=method, length=shape.length, layers=shape.layers)


if __name__ == "__main__":
    raise SystemExit(main())
