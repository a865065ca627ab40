"""drafters: how long each one's drafts live, by domain, what they cost, and tokens per second over no speculation."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.harness.draft_tables import PLAIN, Cell, Tables
from benchmarks.harness.drafting import CONTESTANTS, Config, named_config
from benchmarks.harness.held_out import DOMAINS, domain_prompts
from benchmarks.harness.loading import load, open_session
from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.report import Report
from benchmarks.harness.session import Asking, Run, Session
from benchmarks.harness.trials import interleave
from modeling.target import Target
from protos.messages import Tokens
from protos.sampling_params import SamplingParams


def main(argv: Sequence[str] | None = None) -> int:
    """Contestants take turns at every prompt; 1 where an answer differs from that of no speculation."""
    options = read_options(_parser(), argv, rounds=1)
    report = Report(options)
    tables = Tables(report)
    for dtype in options.dtypes:
        target = load(options, dtype, slots=max(options.extra.concurrency))
        sessions = {PLAIN: open_session(target)} | _open_drafters(options, target, report)
        prompts = _prompts(options, target)
        _warm_up(sessions, next(iter(prompts.values()))[0])
        for temperature in options.extra.temperatures:
            for concurrency in options.extra.concurrency:
                for domain, asked in prompts.items():
                    question = _Question(asked, temperature, concurrency)
                    cell = Cell(dtype=dtype, temperature=temperature, concurrency=concurrency, domain=domain)
                    tables.add(cell, _measure(options, sessions, question))
    tables.add_means()
    report.finish()
    return 1 if tables.differing else 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("drafters", __doc__)
    parser.add_argument(
        "--methods", nargs="+", metavar="NAME|JSON",
        help=f"of {', '.join(CONTESTANTS)}, or a speculative_config; default: all whose weights are there",
    )  # fmt: skip
    parser.add_argument("--domains", nargs="+", choices=tuple(DOMAINS), default=list(DOMAINS))
    parser.add_argument("--prompts-per-domain", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.0, 1.0])
    parser.add_argument("--concurrency", nargs="+", type=int, default=[1, 8])
    return parser


@dataclass(frozen=True, slots=True)
class _Question:
    prompts: Sequence[Tokens]
    temperature: float
    concurrency: int


def _open_drafters(options: Options, target: Target, report: Report) -> dict[str, Session]:
    """Those asked for, which must be there; else of all contestants those whose weights are."""
    if options.extra.methods:
        asked = [named_config(each) for each in options.extra.methods if each != PLAIN]
        return {name: open_session(target, config) for name, config in asked}
    opened = {name: _open_if_there(target, name, config, report) for name, config in CONTESTANTS.items()}
    return {name: session for name, session in opened.items() if session is not None}


def _open_if_there(target: Target, name: str, config: Config, report: Report) -> Session | None:
    try:
        return open_session(target, config)
    except ValueError as error:
        report.note(f"{name} did not run: {error}")
        return None


def _prompts(options: Options, target: Target) -> dict[str, list[Tokens]]:
    count = 2 if options.quick else options.extra.prompts_per_domain
    return {
        name: [prompt.encode(target.tokenizer) for prompt in domain_prompts(name, count)]
        for name in options.extra.domains
    }


def _warm_up(sessions: Mapping[str, Session], prompt: Tokens) -> None:
    for session in sessions.values():
        session.run([prompt], SamplingParams(temperature=0, max_tokens=4, seed=0), concurrency=1)


def _measure(options: Options, sessions: Mapping[str, Session], question: _Question) -> dict[str, list[Run]]:
    """The runs of every contestant, in the same order: a group of prompts at a time, every second one backwards."""
    max_tokens = 8 if options.quick else options.extra.max_tokens
    gathered: dict[str, list[Run]] = {name: [] for name in sessions}
    for number, start in enumerate(range(0, len(question.prompts), question.concurrency)):
        params = SamplingParams(temperature=question.temperature, max_tokens=max_tokens, seed=start)
        group = question.prompts[start : start + question.concurrency]
        trials = {
            name: _Kept(session, group, params, gathered[name])
            for name, session in (list(sessions.items())[:: 1 if number % 2 == 0 else -1])
        }
        interleave(trials, rounds=options.rounds, warmup=0)
    return gathered


@dataclass(frozen=True, slots=True)
class _Kept:
    """A trial that keeps every run."""

    session: Session
    prompts: Sequence[Tokens]
    params: SamplingParams
    runs: list[Run]

    def __call__(self) -> float:
        asking = Asking(session=self.session, prompts=self.prompts, params=self.params, concurrency=len(self.prompts))
        value = asking()
        self.runs.append(asking.last)
        return value


if __name__ == "__main__":
    raise SystemExit(main())
