"""speculation: tokens per second with a drafter over none, by prompt set, alone and eight at a time, same text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.harness.loading import load, open_session
from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.prompts import PROMPT_SETS, load_prompts
from benchmarks.harness.report import Report
from benchmarks.harness.session import Asking, Run, Session
from benchmarks.harness.trials import Samples, interleave
from modeling.target import Target
from protos.sampling_params import SamplingParams

SETS = ("repetitive", "mixed", "fresh")
SUFFIX = '{"method": "suffix", "num_speculative_tokens": 8}'
GREEDY = SamplingParams(temperature=0, seed=0)
# Where nothing repeats: hot sampling keeps even a small model from looping.
PARAMS = {"fresh": replace(GREEDY, temperature=1.3, top_p=0.95)}


def main(argv: Sequence[str] | None = None) -> int:
    """Every configuration answers the same prompts in turns; a differing token fails the benchmark."""
    parser = make_parser("speculation", __doc__)
    parser.add_argument(
        "--speculative-config", nargs="+", type=json.loads, default=[json.loads(SUFFIX)], metavar="JSON"
    )
    parser.add_argument("--sets", nargs="+", choices=tuple(PROMPT_SETS), default=SETS)
    parser.add_argument("--limit", type=int, default=12, help="prompts of each set")
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--concurrency", nargs="+", type=int, default=[1, 8])
    options = read_options(parser, argv, rounds=3)
    report = Report(options)
    for dtype in options.dtypes:
        target = load(options, dtype, slots=max(options.extra.concurrency))
        sessions = {"none": open_session(target)}
        for config in options.extra.speculative_config:
            sessions[_label(config)] = open_session(target, config)
        for name in options.extra.sets:
            for concurrency in options.extra.concurrency:
                runs = _measure(options, target, sessions, name, concurrency)
                _add(report, {"dtype": dtype, "set": name, "at a time": concurrency}, runs)
    report.finish()
    return 0


def _label(config: Mapping[str, Any]) -> str:
    return f"{config['method']} {config.get('num_speculative_tokens', '')}".strip()


def _measure(
    options: Options, target: Target, sessions: Mapping[str, Session], name: str, concurrency: int
) -> dict[str, tuple[Samples, Run]]:
    limit, max_tokens = (2, 8) if options.quick else (options.extra.limit, options.extra.max_tokens)
    prompts = [prompt.encode(target.tokenizer) for prompt in load_prompts(name, limit)]
    params = replace(PARAMS.get(name, GREEDY), max_tokens=max_tokens)
    trials = {
        label: Asking(session=session, prompts=prompts, params=params, concurrency=concurrency)
        for label, session in sessions.items()
    }
    measured = interleave(trials, rounds=options.rounds, warmup=0)
    return {label: (measured[label], trial.last) for label, trial in trials.items()}


def _add(report: Report, where: Mapping[str, object], runs: Mapping[str, tuple[Samples, Run]]) -> None:
    plain_speed, plain = runs["none"]
    for label, (speed, run) in runs.items():
        differing = sum(a != b for a, b in zip(run.answers, plain.answers, strict=True))
        if differing:
            raise AssertionError(
                f"{label}, {where}: {differing} of {len(run.answers)} answers differ from plain decoding"
            )
        ratio = speed.over(plain_speed)
        row = {
            "method": label,
            "tokens/s": speed.median,
            "ratio": ratio.median,
            "spread": ratio.spread,
            "τ of drafts": run.speculation.accepted_length,
            "drafts/step": run.speculation.num_drafts / run.stats.steps,
            "accepted by position": [round(share, 3) for share in run.speculation.acceptance_by_position],
            "drafted": run.speculation.drafted,
            "verified": run.speculation.verified,
            "tokens": run.stats.generation_tokens,
        }
        report.add("speculation, same text", dict(where) | row)


if __name__ == "__main__":
    raise SystemExit(main())
