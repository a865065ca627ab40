"""startup: seconds from `paradraft serve` to the first healthy answer, with the built-in model already converted."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness.baseline import weights_dir
from benchmarks.harness.options import make_parser, read_options
from benchmarks.harness.report import Report
from benchmarks.harness.server import Server
from benchmarks.harness.trials import interleave


def main(argv: Sequence[str] | None = None) -> int:
    """Starts and ends a server for every round. /health decodes a token, so ready means that it answers."""
    options = read_options(make_parser("startup", __doc__), argv, rounds=3)
    report = Report(options)
    weights_dir(options.model)

    def start(dtype: str) -> float:
        with Server(options.model, "--dtype", dtype, "--threads", str(options.threads)) as server:
            return server.ready_s

    trials = {dtype: lambda dtype=dtype: start(dtype) for dtype in options.dtypes}
    for dtype, seconds in interleave(trials, rounds=options.rounds, warmup=0).items():
        row = {"dtype": dtype, "median": seconds.median, "slowest": max(seconds.values), "starts": len(seconds.values)}
        report.add("seconds from start to healthy", row)
    report.finish()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
