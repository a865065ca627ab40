"""likely_cause: each known cause is named from its figures, and good figures have none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.cli.diagnosis import Evidence, likely_cause

FINE = Evidence(
    method="draft_model",
    temperature=0.0,
    steps=100,
    num_drafts=90,
    accepted_per_pos=(70, 50, 30),
    answers_ended=0.5,
)
LOW = replace(FINE, accepted_per_pos=(9, 1, 0))


@pytest.mark.parametrize(
    ("evidence", "named"),
    [
        (replace(FINE, failures=3), "failed or came too late 3 times"),
        (replace(FINE, num_drafts=0, accepted_per_pos=()), "draft_model drafted nothing in 100 steps"),
        (replace(FINE, method="suffix", num_drafts=0, accepted_per_pos=()), "does not repeat"),
        (replace(FINE, num_drafts=10, accepted_per_pos=(9, 9)), "a draft in 10 of 100 steps"),
        (replace(FINE, accepted_per_pos=(0, 0, 0)), "tokenizer or vocabulary"),
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
    assert FINE.rates == [70 / 90, 50 / 90, 30 / 90]
