"""Tables of a race of drafters: speed, acceptance by position, and means over the domains."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import pairwise
from operator import add

from benchmarks.harness.report import Report
from benchmarks.harness.session import Run, tokens_per_second
from benchmarks.harness.trials import Samples
from protos.speculation_counts import SpeculationCounts

PLAIN = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Under which conditions all contestants answered."""

    dtype: str
    temperature: float
    concurrency: int
    domain: str

    def as_row(self) -> dict[str, object]:
        """Columns."""
        names = {"temperature": "T", "concurrency": "at a time"}
        return {names.get(name, name): value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    cell: Cell
    method: str
    accepted_length: float
    ratio: float
    draft_ms: float


class Tables:
    """Fills a report cell by cell. `differing`: answers so far that were not those of no speculation."""

    def __init__(self, report: Report) -> None:
        self.differing = 0
        self._report = report
        self._summaries: list[_Summary] = []

    def add(self, cell: Cell, runs: Mapping[str, Sequence[Run]]) -> None:
        """`runs`: those of each contestant, in the same order; PLAIN is one of them."""
        plain = runs[PLAIN]
        speed_of_plain = _speeds(plain)
        for method, own in runs.items():
            where = cell.as_row() | {"method": method}
            speed, counts = _speeds(own), reduce(add, (run.speculation for run in own))
            ratio = speed.over(speed_of_plain)
            draft_ms, verify_ms = _times(own)
            self._report.add(
                "tokens per second and milliseconds a round, medians",
                where
                | {"tokens/s": speed.median, "ratio": ratio.median, "spread": ratio.spread}
                | {"draft ms": draft_ms, "verify ms": verify_ms, "differing": self._compare(where, own, plain)},
            )
            self._report.add("acceptance", where | _acceptance(own, counts))
            self._note_unanswered(where, own)
            self._summaries.append(
                _Summary(
                    cell=cell,
                    method=method,
                    accepted_length=counts.accepted_length,
                    ratio=ratio.median,
                    draft_ms=draft_ms,
                )
            )

    def add_means(self) -> None:
        """One row for each contestant and condition, over the domains."""
        groups: dict[tuple[str, float, int, str], list[_Summary]] = {}
        for each in self._summaries:
            key = (each.cell.dtype, each.cell.temperature, each.cell.concurrency, each.method)
            groups.setdefault(key, []).append(each)
        for (dtype, temperature, concurrency, method), group in groups.items():
            row = {"dtype": dtype, "T": temperature, "at a time": concurrency, "method": method}
            means = {
                "τ": statistics.mean(each.accepted_length for each in group),
                "ratio": statistics.mean(each.ratio for each in group),
                "draft ms": statistics.mean(each.draft_ms for each in group),
            }
            self._report.add("means over the domains", row | means)

    def _compare(self, where: Mapping[str, object], runs: Sequence[Run], plain: Sequence[Run]) -> int:
        pairs = [both for a, b in zip(runs, plain, strict=True) for both in zip(a.answers, b.answers, strict=True)]
        differing = sum(ours != theirs for ours, theirs in pairs)
        if differing:
            self.differing += differing
            self._report.note(f"FAILED: {differing} of {len(pairs)} answers differ from no speculation: {dict(where)}")
        return differing

    def _note_unanswered(self, where: Mapping[str, object], runs: Sequence[Run]) -> None:
        unanswered = sum(run.stats.unanswered_draft_queries for run in runs)
        if unanswered:
            self._report.note(f"{unanswered} draft queries had no whole answer in time: {dict(where)}")


def conditional(counts: SpeculationCounts) -> tuple[float, ...]:
    """Of the drafts whose first i tokens were accepted, the share whose next one was: as far as there are any."""
    reached = (counts.num_drafts, *counts.accepted_per_pos)
    return tuple(after / before for before, after in pairwise(reached) if before)


def _speeds(runs: Sequence[Run]) -> Samples:
    return Samples(values=tuple(map(tokens_per_second, runs)))


def _times(runs: Sequence[Run]) -> tuple[float, float]:
    """Median milliseconds of drafting and of verifying, over the rounds with drafting; without any, of all forwards."""
    rounds = [each for run in runs for each in run.rounds]
    drafting = [each for each in rounds if each.draft] or rounds
    return statistics.median(each.draft for each in drafting), statistics.median(each.verify for each in drafting)


def _acceptance(runs: Sequence[Run], counts: SpeculationCounts) -> dict[str, object]:
    tokens = sum(run.stats.generation_tokens for run in runs)
    return {
        "τ": counts.accepted_length,
        "tokens/verification": tokens / sum(run.verifications for run in runs),
        "accepted if all before were": [round(share, 3) for share in conditional(counts)],
        "drafts": counts.num_drafts,
        "drafted": counts.drafted,
        "verified": counts.verified,
        "tokens": tokens,
    }
