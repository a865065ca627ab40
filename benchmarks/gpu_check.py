"""gpu_check: on a CUDA machine, in at most six minutes: exactness, flip rate, ms(b, k) and tokens per second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from benchmarks.harness.forward_grid import CONTEXT, measure_grid
from benchmarks.harness.loading import load, open_session
from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.prompts import load_prompts
from benchmarks.harness.report import Report
from benchmarks.harness.session import Asking, Run, Session
from benchmarks.harness.trials import interleave
from modeling.target import Target
from modeling.work import Work
from protos.messages import Tokens
from protos.sampling_params import SamplingParams

SUFFIX = {"method": "suffix", "num_speculative_tokens": 8}
GREEDY = SamplingParams(temperature=0, seed=0, ignore_eos=True)
SAMPLED = replace(GREEDY, temperature=0.7, top_p=0.95)
CONCURRENCY = 16


def main(argv: Sequence[str] | None = None) -> int:
    """Says so, and succeeds, where there is no CUDA device; a check by hand may name another one with --device."""
    parser = make_parser("gpu_check", __doc__)
    parser.set_defaults(device="cuda")
    options = read_options(parser, argv, rounds=5)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("gpu-check: this machine has no CUDA device that torch can use; nothing was checked")
        return 0
    report = Report(options)
    targets = {dtype: load(options, dtype, slots=CONCURRENCY) for dtype in options.dtypes}
    for dtype, target in targets.items():
        prompts = [p.encode(target.tokenizer) for p in load_prompts("mixed", 4 if options.quick else 24)]
        plain, suffix = open_session(target), open_session(target, SUFFIX)
        _add_exactness(report, options, dtype, (plain, suffix), prompts)
        _add_flips(report, dtype, target, prompts)
        _add_speed(report, options, dtype, (plain, suffix), prompts)
    axes = ((1, 4), (1, 8)) if options.quick else ((1, 2, 4, 8, 16), (1, 2, 4, 8, 16))
    grid = measure_grid(targets, *axes, rounds=options.rounds * 3)
    for dtype in options.dtypes:
        grid.add_to(report, dtype)
    report.finish()
    return 0


def _add_exactness(
    report: Report, options: Options, dtype: str, sessions: tuple[Session, Session], prompts: Sequence[Tokens]
) -> None:
    """Speculation on against off, alone and together: equal answers, and where the first unequal one parts."""
    plain, suffix = sessions
    for name, law in (("greedy", GREEDY), ("T=0.7 top_p=0.95", SAMPLED)):
        params = replace(law, max_tokens=8 if options.quick else 128)
        reference = plain.run(prompts, params, concurrency=1)
        for how, run in (
            ("plain, together", plain.run(prompts, params, concurrency=CONCURRENCY)),
            ("suffix, alone", suffix.run(prompts, params, concurrency=1)),
            ("suffix, together", suffix.run(prompts, params, concurrency=CONCURRENCY)),
        ):
            row = {"dtype": dtype, "sampling": name, "run": how} | _compare(reference, run)
            report.add("answers equal to plain decoding alone", row)


def _compare(reference: Run, run: Run) -> dict[str, object]:
    pairs = list(zip(reference.answers, run.answers, strict=True))
    parted = [next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y) for a, b in pairs if a != b]
    return {
        "equal": len(pairs) - len(parted),
        "of": len(pairs),
        "first parts at": min(parted, default=None),
        "accepted length": run.speculation.accepted_length,
    }


def _add_flips(report: Report, dtype: str, target: Target, prompts: Sequence[Tokens]) -> None:
    """Teacher-forced: the likeliest token of each row, computed one by one and computed eight at once."""
    rows = flips = 0
    for tokens in (prompt[:CONTEXT] for prompt in prompts):
        single = [_argmax(target, tokens, start, 1) for start in range(len(tokens))]
        packed = [_argmax(target, tokens, start, 8) for start in range(0, len(tokens), 8)]
        rows += len(tokens)
        flips += int((torch.cat(single) != torch.cat(packed)).sum())
    report.add("flips of the likeliest token, k=8 against k=1", {"dtype": dtype, "rows": rows, "flips": flips})


def _argmax(target: Target, tokens: Tokens, start: int, count: int) -> torch.Tensor:
    part = tokens[start : start + count]
    forward = target.runner.forward([Work(slot=0, start=start, tokens=part, num_logits=len(part))])
    return forward.logits.argmax(-1)


def _add_speed(
    report: Report, options: Options, dtype: str, sessions: tuple[Session, Session], prompts: Sequence[Tokens]
) -> None:
    params = replace(GREEDY, max_tokens=8 if options.quick else 128)
    for concurrency in (1, CONCURRENCY):
        asked = prompts[: max(4, concurrency)]
        trials = {
            name: Asking(session=session, prompts=asked, params=params, concurrency=concurrency)
            for name, session in zip(("plain", "suffix"), sessions, strict=True)
        }
        measured = interleave(trials, rounds=options.rounds)
        ratio = measured["suffix"].over(measured["plain"])
        row = {"dtype": dtype, "at a time": concurrency} | {name: s.median for name, s in measured.items()}
        report.add("tokens per second", row | {"ratio": ratio.median, "spread": ratio.spread})


if __name__ == "__main__":
    raise SystemExit(main())
