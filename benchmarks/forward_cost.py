"""forward_cost: milliseconds of one packed forward for b sequences of k tokens each, and of its two halves alone."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness.forward_grid import CONTEXT, Grid, make_works, measure_grid
from benchmarks.harness.loading import load
from benchmarks.harness.options import make_parser, read_options
from benchmarks.harness.parts import ForwardParts
from benchmarks.harness.report import Report
from benchmarks.harness.trials import interleave, timed
from modeling.target import Target

BATCHES = (1, 2, 4, 8, 16)
LENGTHS = (1, 2, 4, 5, 8, 16)
POINTS = ((1, 1), (1, 8), (4, 8), (8, 1), (8, 5), (8, 8), (16, 5))


def main(argv: Sequence[str] | None = None) -> int:
    """Measures every cell of every dtype, interleaved; on CPU also all linears alone and all attention alone."""
    options = read_options(make_parser("forward_cost", __doc__), argv, rounds=15)
    report = Report(options)
    batches, lengths = ((1, 4), (1, 8)) if options.quick else (BATCHES, LENGTHS)
    targets = {dtype: load(options, dtype, slots=max(batches), max_len=2 * CONTEXT) for dtype in options.dtypes}
    grid = measure_grid(targets, batches, lengths, rounds=options.rounds)
    for dtype, target in targets.items():
        grid.add_to(report, dtype)
        if options.device == "cpu":
            _add_parts(report, dtype, target, grid, rounds=options.rounds)
    report.finish()
    return 0


def _add_parts(report: Report, dtype: str, target: Target, grid: Grid, *, rounds: int) -> None:
    points = [(b, k) for b, k in POINTS if b in grid.batches and k in grid.lengths]
    slots = max(b for b, _ in points)
    parts = ForwardParts(target.config, dtype=target.dtype, num_slots=slots, max_len=2 * CONTEXT)
    trials = {}
    for b, k in points:
        trials[f"linears {b},{k}"] = timed(parts.linears(b * k))
        trials[f"attention {b},{k}"] = timed(parts.attention(make_works(target.runner, b, k)))
    measured = interleave(trials, rounds=rounds, warmup=2)
    for b, k in points:
        linears, attention = measured[f"linears {b},{k}"].median, measured[f"attention {b},{k}"].median
        whole = grid.ms(dtype, b, k).median
        row = {"whole": whole, "linears": linears, "attention": attention, "rest": whole - linears - attention}
        report.add(f"parts of a forward, ms, {dtype}", {"b": b, "k": k} | row)


if __name__ == "__main__":
    raise SystemExit(main())
