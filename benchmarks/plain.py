"""plain: decoding without speculation against transformers' generate, alone and eight at a time."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from benchmarks.harness.baseline import Baseline
from benchmarks.harness.loading import load, open_session
from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.prompts import load_prompts
from benchmarks.harness.report import Report
from benchmarks.harness.session import Asking
from benchmarks.harness.trials import Samples, Trial, interleave
from protos.messages import Tokens
from protos.sampling_params import SamplingParams

BATCH = 8
ALONE = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Tokens per second of both, interleaved; all answers have the same fixed length."""
    parser = make_parser("plain", __doc__)
    parser.add_argument("--max-tokens", type=int, default=96)
    options = read_options(parser, argv, rounds=5)
    report = Report(options)
    for dtype in options.dtypes:
        measured = interleave(_trials(options, dtype, report), rounds=options.rounds)
        for size in (1, BATCH):
            _add(report, dtype, size, measured)
    report.finish()
    return 0


def _trials(options: Options, dtype: str, report: Report) -> dict[str, Trial]:
    target = load(options, dtype, slots=BATCH)
    ours, theirs = open_session(target), Baseline(options.model, dtype)
    prompts = [prompt.encode(target.tokenizer) for prompt in load_prompts("mixed", BATCH)]
    max_tokens = 8 if options.quick else options.extra.max_tokens
    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, seed=0)
    alone = prompts[:ALONE]
    expected = [theirs.generate([prompt], max_tokens=max_tokens)[0] for prompt in alone]
    answers = ours.run(alone, params, concurrency=1).answers
    same = sum(a == b for a, b in zip(answers, expected, strict=True))
    report.add("answers equal to transformers", {"dtype": dtype, "equal": same, "of": len(alone)})
    return {
        "paradraft 1": Asking(session=ours, prompts=alone, params=params, concurrency=1),
        "transformers 1": _theirs(theirs, [[prompt] for prompt in alone], max_tokens),
        f"paradraft {BATCH}": Asking(session=ours, prompts=prompts, params=params, concurrency=BATCH),
        f"transformers {BATCH}": _theirs(theirs, [prompts], max_tokens),
    }


def _theirs(baseline: Baseline, batches: Sequence[Sequence[Tokens]], max_tokens: int) -> Trial:
    def trial() -> float:
        start = perf_counter()
        answers = [answer for batch in batches for answer in baseline.generate(batch, max_tokens=max_tokens)]
        return sum(len(answer) for answer in answers) / (perf_counter() - start)

    return trial


def _add(report: Report, dtype: str, size: int, measured: dict[str, Samples]) -> None:
    ours, theirs = measured[f"paradraft {size}"], measured[f"transformers {size}"]
    ratio = ours.over(theirs)
    row = {
        "dtype": dtype,
        "at a time": size,
        "paradraft": ours.median,
        "transformers": theirs.median,
        "ratio": ratio.median,
        "spread": ratio.spread,
    }
    report.add("tokens per second, no speculation", row)


if __name__ == "__main__":
    raise SystemExit(main())
