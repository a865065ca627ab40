"""engine_overhead: what share of a step the engine spends outside the forward, at one request and at eight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness.loading import load, open_session
from benchmarks.harness.options import make_parser, read_options
from benchmarks.harness.prompts import load_prompts
from benchmarks.harness.report import Report
from benchmarks.harness.session import Asking, Run
from benchmarks.harness.trials import Samples, interleave
from protos.sampling_params import SamplingParams

METHODS: Mapping[str, Mapping[str, Any] | None] = {
    "none": None,
    "suffix": {"method": "suffix", "num_speculative_tokens": 8},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Shares of whole runs: prefill, drafting and settling included."""
    options = read_options(make_parser("engine_overhead", __doc__), argv, rounds=5)
    report = Report(options)
    max_tokens = 8 if options.quick else 96
    for dtype in options.dtypes:
        target = load(options, dtype, slots=8)
        prompts = [prompt.encode(target.tokenizer) for prompt in load_prompts("mixed", 8)]
        params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, seed=0)
        cells = {
            f"{method} {size}": Asking(
                session=open_session(target, config),
                prompts=prompts[:size],
                params=params,
                concurrency=size,
                value=_share_outside,
            )
            for method, config in METHODS.items()
            for size in (1, 8)
        }
        shares = interleave(cells, rounds=options.rounds)
        for name, cell in cells.items():
            method, size = name.split()
            report.add("share of a step outside the forward", {"dtype": dtype, "method": method, "at a time": int(size)}
                       | _row(shares[name], cell.last))  # fmt: skip
    report.finish()
    return 0


def _share_outside(run: Run) -> float:
    return 1 - run.stats.forward_seconds / run.stats.step_seconds


def _row(share: Samples, run: Run) -> dict[str, object]:
    stats = run.stats
    return {
        "share": share.median,
        "spread": share.spread,
        "of which drafting": stats.draft_seconds / stats.step_seconds,
        "step ms": stats.step_seconds / stats.steps * 1e3,
        "forward ms": stats.forward_seconds / stats.steps * 1e3,
        "steps": stats.steps,
    }


if __name__ == "__main__":
    raise SystemExit(main())
