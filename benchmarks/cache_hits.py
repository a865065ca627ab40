"""cache_hits: what draft files give by the share of prompts that come back, alone and beside other drafters."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.cache_process import opened
from benchmarks.harness.filed_session import FiledSession
from benchmarks.harness.hit_tables import PLAIN, Answered, HitTables
from benchmarks.harness.loading import load
from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.repeating import Kind, Visit, Workload, make_workload
from benchmarks.harness.report import Report
from benchmarks.harness.trials import Samples
from modeling.target import Target
from protos.draft_files import Namespace
from protos.sampling_params import SamplingParams

SUFFIX = {"method": "suffix", "num_speculative_tokens": 16}
CACHED = {"method": "cached", "num_speculative_tokens": 16}
EAGLE = {"method": "eagle3", "num_speculative_tokens": 7, "min_survival": 0.1}
CONTESTANTS: Mapping[str, Mapping[str, Any] | None] = {
    PLAIN: None,
    "suffix": SUFFIX,
    "cached": CACHED,
    "suffix+cached": {"method": "mixed", "drafters": [SUFFIX, CACHED]},
    "suffix+eagle3": {"method": "mixed", "drafters": [SUFFIX, EAGLE]},
    "suffix+cached+eagle3": {"method": "mixed", "drafters": [SUFFIX, CACHED, EAGLE]},
}
WITHOUT = {"cached": PLAIN, "suffix+cached": "suffix", "suffix+cached+eagle3": "suffix+eagle3"}
TOGETHER = 8  # while the past is answered


def main(argv: Sequence[str] | None = None) -> int:
    """Every contestant has seen the same past; then they take turns at every prompt. 1 where an answer differs."""
    options = read_options(_parser(), argv, rounds=1)
    report = Report(options)
    shares, count = ((0, 60), 5) if options.quick else (options.extra.shares, options.extra.prompts)
    workload = make_workload(shares, count)
    tables = HitTables(report, WITHOUT)
    for dtype in options.dtypes:
        target = load(options, dtype, slots=TOGETHER)
        with tempfile.TemporaryDirectory(prefix="draft-files-") as folder:
            race = _Race(options, report, target, dtype)
            namespaces = race.run(Path(folder), workload, tables)
            for name, namespace in namespaces.items():
                race.reopen(name, Path(folder, name), namespace)
    report.finish()
    return 1 if tables.differing else 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("cache_hits", __doc__)
    parser.set_defaults(dtypes=["bf16"])
    parser.add_argument("--drafters", nargs="+", choices=tuple(CONTESTANTS), help="beside none; default: all")
    parser.add_argument("--shares", nargs="+", type=int, default=[0, 20, 40, 60, 80], help="of repeats, in per cent")
    parser.add_argument("--prompts", type=int, default=15, help="at each share")
    parser.add_argument("--max-tokens", type=int, default=40)
    parser.add_argument("--restart", action="store_true", help="after the past: only what is on the disk is left of it")
    return parser


@dataclass(frozen=True, slots=True)
class _Race:
    """All contestants over one target."""

    options: Options
    report: Report
    target: Target
    dtype: str

    def run(self, folder: Path, workload: Workload, tables: HitTables) -> dict[str, Namespace]:
        """The past, then the traffic of each share. The namespaces of those with draft files, which are closed."""
        with ExitStack() as stack:
            sessions = self._sessions(folder, stack)
            for name, session in sessions.items():
                if name != PLAIN:
                    self._answer_past(name, session, workload.past)
            if self.options.extra.restart:
                stack.close()
                sessions = self._sessions(folder, stack)
            by_kind: dict[Kind, dict[str, list[Answered]]] = {}
            for share, visits in workload.traffic.items():
                where = {"repeats %": share}
                answered = self._take_turns(sessions, visits)
                tables.compare(where, answered)
                tables.add(f"by share of repeats, {self.dtype}", where, answered)
                for name, each in ((name, each) for name, own in answered.items() for each in own):
                    by_kind.setdefault(each.visit.kind, {}).setdefault(name, []).append(each)
            for kind in Kind:
                tables.add(f"by kind of repeat, {self.dtype}", {"kind": kind.value}, by_kind.get(kind, {}))
            return {name: self._add_files(name, session) for name, session in sessions.items() if session.pretriever}

    def _sessions(self, folder: Path, stack: ExitStack) -> dict[str, FiledSession]:
        """One for each contestant, open until the stack is closed."""
        return {
            name: stack.enter_context(FiledSession(self.target, CONTESTANTS[name], folder / name))
            for name in self._names()
        }

    def reopen(self, name: str, directory: Path, namespace: Namespace) -> None:
        """What it takes to open the draft files that a contestant left."""
        with opened(directory, namespace) as (pretriever, opening):
            held = pretriever.metrics()[namespace]
        row = {"dtype": self.dtype, "drafter": name, "prefixes": held.records, "bytes on disk": held.num_bytes}
        times = {"files open ms": opening.store_ms, "can be asked ms": opening.ready_ms}
        self.report.add("opening the draft files again", row | times)

    def _names(self) -> list[str]:
        """Of the contestants; the learned drafter's weights are the built-in model's."""
        if self.options.extra.drafters:
            return list(dict.fromkeys([PLAIN, *self.options.extra.drafters]))
        return [name for name in CONTESTANTS if not (self.options.quick and "eagle3" in name)]

    def _answer_past(self, name: str, session: FiledSession, past: Sequence[Visit]) -> None:
        """By the way that every answer takes into draft files, and into the memory of past answers."""
        stored_ms = 0.0
        for temperature in sorted({visit.temperature for visit in past}):
            visits = [visit for visit in past if visit.temperature == temperature]
            assert [visit.seed for visit in visits] == list(range(len(visits)))  # as a session counts them
            prompts = [visit.prompt.encode(self.target.tokenizer) for visit in visits]
            stored_ms += session.run(prompts, self._params(visits[0]), concurrency=TOGETHER)[1]
        if session.pretriever is not None:
            row = {"dtype": self.dtype, "drafter": name, "answers": len(past), "ms/answer": stored_ms / len(past)}
            self.report.add("insertion of the past", row)

    def _take_turns(self, sessions: Mapping[str, FiledSession], visits: Sequence[Visit]) -> dict[str, list[Answered]]:
        """One prompt at a time, the order of the contestants turned round at every second."""
        answered: dict[str, list[Answered]] = {name: [] for name in sessions}
        for number, visit in enumerate(visits):
            prompt = visit.prompt.encode(self.target.tokenizer)
            for name in list(sessions)[:: 1 if number % 2 == 0 else -1]:
                run, stored_ms = sessions[name].run([prompt], self._params(visit), concurrency=1)
                answered[name].append(Answered(visit=visit, run=run, stored_ms=stored_ms))
        return answered

    def _params(self, visit: Visit) -> SamplingParams:
        max_tokens = 12 if self.options.quick else self.options.extra.max_tokens
        return SamplingParams(temperature=visit.temperature, seed=visit.seed, max_tokens=max_tokens)

    def _add_files(self, name: str, session: FiledSession) -> Namespace:
        assert session.pretriever is not None
        ((namespace, held),) = session.pretriever.metrics().items()
        times = Samples(values=tuple(session.pretriever.look_up_ms))
        row = {"dtype": self.dtype, "drafter": name, "look-ups": held.lookups, "found": held.hits / held.lookups}
        look_up = {"look-up ms, p50": times.median, "p99": times.percentile(99), "vectors": held.kind}
        self.report.add("look-ups", row | look_up | {"accepted from files": held.accepted})
        return namespace


if __name__ == "__main__":
    raise SystemExit(main())
