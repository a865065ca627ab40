"""likely_cause: each known cause is named from its figures, and good figures have none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protos.messages import RequestStats
from protos.speculation_counts import SpeculationCounts
from services.cli.diagnosis import Evidence, likely_cause

NOTHING = RequestStats(steps=100)
FINE = Evidence(
    method="draft_model",
    temperature=0.0,
    stats=RequestStats(steps=100, speculation=SpeculationCounts(num_drafts=90, accepted_per_pos=(70, 50, 30))),
    answers_ended=0.5,
)


def _seen(*accepted_per_pos: int, num_drafts: int = 90) -> Evidence:
    drafts = SpeculationCounts(num_drafts=num_drafts, accepted_per_pos=accepted_per_pos)
    return replace(FINE, stats=replace(FINE.stats, speculation=drafts))


LOW = _seen(9, 1, 0)


@pytest.mark.parametrize(
    ("evidence", "named"),
    [
        (replace(FINE, failures=3), "failed or came too late 3 times"),
        (replace(FINE, stats=NOTHING), "draft_model drafted nothing in 100 steps"),
        (replace(FINE, method="suffix", stats=NOTHING), "does not repeat"),
        (_seen(9, 9, num_drafts=10), "a draft in 10 of 100 steps"),
        (_seen(0, 0, 0), "tokenizer or vocabulary"),
        (replace(LOW, temperature=1.0), "temperature 1"),
        (replace(LOW, method="suffix"), "suffix pays on"),
        (replace(LOW, answers_ended=0.0), "chat template"),
        (LOW, "made for another model"),
    ],
)
def test_the_cause_is_named(evidence: Evidence, named: str) -> None:
    cause = likely_cause(evidence)
    assert cause is not None
    assert named in cause


def test_good_acceptance_has_no_cause() -> None:
    assert likely_cause(FINE) is None
