"""forward_cost: milliseconds of one packed forward for b sequences of k tokens each, and of its two halves alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.parts import ForwardParts
from benchmarks.harness.report import Report
from benchmarks.harness.trials import Samples, Trial, interleave, timed
from modeling.target import Target, TargetSpec, load_target
from modeling.work import Runner, Work

CONTEXT = 256
BATCHES = (1, 2, 4, 8, 16)
LENGTHS = (1, 2, 4, 5, 8, 16)
POINTS = ((1, 1), (1, 8), (4, 8), (8, 1), (8, 5), (8, 8), (16, 5))

Cell = tuple[int, int]


def main(argv: Sequence[str] | None = None) -> int:
    """Measures every cell of every dtype, interleaved."""
    options = read_options(make_parser("forward_cost", __doc__), argv, rounds=15)
    report = Report(options)
    batches, lengths = ((1, 2), (1, 4)) if options.quick else (BATCHES, LENGTHS)
    cells = [(b, k) for b in batches for k in lengths]
    targets = {dtype: _load(options, dtype, slots=max(batches)) for dtype in options.dtypes}
    trials = {f"{dtype} {b},{k}": timed(_forward(target, b, k)) for dtype, target in targets.items() for b, k in cells}
    measured = interleave(trials, rounds=options.rounds, warmup=2)
    _add_grid(report, measured, options.dtypes, (batches, lengths))
    if options.device == "cpu":
        for dtype, target in targets.items():
            _add_parts(report, options, dtype, target, measured)
    report.finish()
    return 0


def _load(options: Options, dtype: str, *, slots: int) -> Target:
    spec = TargetSpec(
        model=options.model, dtype=dtype, device=options.device, threads=options.threads,
        max_num_seqs=slots, max_model_len=2 * CONTEXT, kv_cache_gib=2.0,
    )  # fmt: skip
    target = load_target(spec)
    for slot in range(slots):
        target.runner.forward([_work(target.runner, slot, start=0, length=CONTEXT, num_logits=0)])
    return target


def _work(runner: Runner, slot: int, *, start: int, length: int, num_logits: int) -> Work:
    generator = torch.Generator().manual_seed(slot)
    tokens = torch.randint(runner.vocab_size, (length,), generator=generator).tolist()
    return Work(slot=slot, start=start, tokens=tuple(tokens), num_logits=num_logits)


def _works(runner: Runner, b: int, k: int) -> list[Work]:
    return [_work(runner, slot, start=CONTEXT, length=k, num_logits=k) for slot in range(b)]


def _forward(target: Target, b: int, k: int) -> Trial:
    works = _works(target.runner, b, k)

    def run() -> float:
        logits = target.runner.forward(works).logits
        return float(logits[0, 0])  # waits for an accelerator

    return run


def _add_grid(
    report: Report, measured: dict[str, Samples], dtypes: Sequence[str], axes: tuple[Sequence[int], Sequence[int]]
) -> None:
    batches, lengths = axes
    for dtype in dtypes:
        for b in batches:
            cells = {f"k={k}": measured[f"{dtype} {b},{k}"] for k in lengths}
            row = {name: round(samples.median, 2) for name, samples in cells.items()}
            report.add(f"ms of one forward, context {CONTEXT}, {dtype}", {"b": b} | row)
        for k in lengths[1:]:
            ratio = measured[f"{dtype} 1,{k}"].over(measured[f"{dtype} 1,1"])
            row = {"dtype": dtype, "k": k, "ratio": ratio.median, "spread": ratio.spread}
            report.add("k tokens over one token, b=1", row)


def _add_parts(report: Report, options: Options, dtype: str, target: Target, whole: dict[str, Samples]) -> None:
    points = [point for point in POINTS if f"{dtype} {point[0]},{point[1]}" in whole]
    slots = max(b for b, _ in points)
    parts = ForwardParts(target.config, dtype=target.dtype, num_slots=slots, max_len=2 * CONTEXT)
    trials = {}
    for b, k in points:
        trials[f"linears {b},{k}"] = timed(parts.linears(b * k))
        trials[f"attention {b},{k}"] = timed(parts.attention(_works(target.runner, b, k)))
    measured = interleave(trials, rounds=options.rounds, warmup=2)
    for b, k in points:
        linears, attention = measured[f"linears {b},{k}"].median, measured[f"attention {b},{k}"].median
        total = whole[f"{dtype} {b},{k}"].median
        row = {"whole": total, "linears": linears, "attention": attention, "rest": total - linears - attention}
        report.add(f"parts of a forward, ms, {dtype}", {"b": b, "k": k} | row)


if __name__ == "__main__":
    raise SystemExit(main())
