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
    stats=RequestStats(
        steps=100,
        speculation=SpeculationCounts(num_drafts=90, drafted=270, verified=270, accepted_per_pos=(70, 50, 30)),
    ),
    answers_ended=0.5,
)


def _seen(*accepted_per_pos: int, num_drafts: int = 90, drafted: int | None = None) -> Evidence:
    count = num_drafts * len(accepted_per_pos) if drafted is None else drafted
    drafts = SpeculationCounts(num_drafts=num_drafts, drafted=count, verified=count, accepted_per_pos=accepted_per_pos)
    return replace(FINE, stats=replace(FINE.stats, speculation=drafts))


LOW = _seen(9, 1, 0)


@pytest.mark.parametrize(
    ("evidence", "named"),
    [
        (replace(FINE, failures=10), "failed or came too late 10 times, beside 90 drafts"),
        (replace(FINE, stats=NOTHING, failures=3), "failed or came too late 3 times"),
        (replace(LOW, failures=1), "another text than the model"),
        (replace(FINE, stats=NOTHING), "draft_model drafted nothing in 100 steps"),
        (replace(FINE, method="suffix", stats=NOTHING), "does not repeat"),
        (replace(FINE, stats=NOTHING, min_survival=0.9), "never as sure of a token as min_survival 0.9"),
        (_seen(9, 9, num_drafts=10), "a draft in 10 of 100 steps"),
        (replace(_seen(9, 9, num_drafts=10), min_survival=0.5), "min_survival 0.5 cuts the others"),
        (replace(FINE, draft_share=0.7), "drafting takes 70% of the time, for which 2.50 tokens a step are too few"),
        (
            replace(_seen(80, drafted=95), min_survival=0.9, longest=7),
            "80 of 95 guesses are right, but drafts are short",
        ),
        (_seen(63, 9, 1), "70% of first tokens are right, and 14% of the second ones"),
        (replace(LOW, made_for="some-target"), "trained for some-target, which has other weights"),
        (_seen(0, 0, 0), "not one token was accepted, though tokenizer and vocabulary fit"),
        (replace(_seen(3, 0, 0), method="dspark"), "hardly a first token is right (3%)"),
        (replace(LOW, temperature=1.0), "temperature 1"),
        (replace(LOW, method="suffix"), "suffix pays on"),
        (replace(LOW, answers_ended=0.0), "chat template"),
        (LOW, "another text than the model"),
        (replace(LOW, method="dspark"), "another text than the model"),
    ],
)
def test_the_cause_is_named(evidence: Evidence, named: str) -> None:
    cause = likely_cause(evidence)
    assert cause is not None
    assert named in cause


@pytest.mark.parametrize(
    "evidence",
    [
        FINE,
        replace(FINE, failures=9),
        replace(FINE, draft_share=0.5),
        replace(FINE, made_for="some-target"),
        replace(FINE, method="dspark", min_survival=0.2, longest=8),
        _seen(80),
    ],
)
def test_what_pays_has_no_cause(evidence: Evidence) -> None:
    assert likely_cause(evidence) is None
