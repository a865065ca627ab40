"""Tables of a repeating workload: what each contestant took for the same visits, and ratios with their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.repeating import Visit
from benchmarks.harness.report import Report
from benchmarks.harness.session import Run

PLAIN = "none"
RESAMPLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One visit, answered by one contestant. stored_ms: of storing the answer, which is no part of the run."""

    visit: Visit
    run: Run
    stored_ms: float

    @property
    def ms(self) -> float:
        """All that it took."""
        return self.run.seconds * 1e3 + self.stored_ms

    @property
    def tokens(self) -> int:
        """Of the answer."""
        return len(self.run.answers[0])


class HitTables:
    """Fills a report. without: of a contestant, the one that is the same but for draft files. differing: answers so far
    that were not those of no speculation."""

    def __init__(self, report: Report, without: Mapping[str, str]) -> None:
        self.differing = 0
        self._report = report
        self._without = without

    def add(self, section: str, where: Mapping[str, object], answered: Mapping[str, Sequence[Answered]]) -> None:
        """A row for each contestant; all answered the same visits in the same order, PLAIN among them."""
        for name, own in answered.items():
            row = dict(where) | {"drafter": name, "visits": len(own)} | _costs(own)
            ratio, bounds = _speed_ratio(own, answered[PLAIN])
            row |= {"over none": ratio, "95 %": None if name == PLAIN else bounds}
            rival = self._without.get(name, "")
            if rival in answered:
                ratio, bounds = _speed_ratio(own, answered[rival])
                row |= {"over no files": ratio, "its 95 %": bounds}
            self._report.add(section, row)

    def compare(self, where: Mapping[str, object], answered: Mapping[str, Sequence[Answered]]) -> None:
        """Notes every answer that is not what no speculation said."""
        for name, own in answered.items():
            wrong = sum(a.run.answers != b.run.answers for a, b in zip(own, answered[PLAIN], strict=True))
            self.differing += wrong
            if wrong:
                self._report.note(
                    f"FAILED: {wrong} of {len(own)} answers of {name} differ from no speculation: {dict(where)}"
                )
            unanswered = sum(each.run.stats.unanswered_draft_queries for each in own)
            if unanswered:
                self._report.note(f"{unanswered} draft queries of {name} had no whole answer in time: {dict(where)}")


def _costs(answered: Sequence[Answered]) -> dict[str, object]:
    tokens = sum(each.tokens for each in answered)
    stats = [each.run.stats for each in answered]
    return {
        "tokens/verification": tokens / sum(each.run.verifications for each in answered),
        "ms/token": sum(each.ms for each in answered) / tokens,
        "storing": sum(each.stored_ms for each in answered) / tokens,
        "draft ms/step": sum(each.draft_seconds for each in stats) * 1e3 / sum(each.steps for each in stats),
    }


def _speed_ratio(own: Sequence[Answered], other: Sequence[Answered]) -> tuple[float, list[float]]:
    ratio, *bounds = speed_ratio([each.ms for each in own], [each.ms for each in other])
    return ratio, bounds


def speed_ratio(own: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """How many times as fast, over all pairs, and between what bounds with 95 % certainty: pairs are drawn anew, with
    replacement."""
    pairs: NDArray[np.float64] = np.array([other, own])
    drawn = np.random.default_rng(0).integers(pairs.shape[1], size=(RESAMPLES, pairs.shape[1]))
    others, owns = pairs[:, drawn].sum(axis=2)
    low, high = np.percentile(others / owns, [2.5, 97.5])
    return float(pairs[0].sum() / pairs[1].sum()), float(low), float(high)
