"""The repeating workload: exact shares, each kind of repeat what it says, and nothing asked twice."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.harness.repeating import (
    REPEATS,
    TEMPLATES,
    Kind,
    fresh_visits,
    make_workload,
    repeating_prompts,
    reworded_visits,
)

RATES = (0, 20, 40, 60, 80)


@pytest.mark.parametrize("count", [5, 15, 30])
def test_the_share_of_repeats_is_exact(count: int) -> None:
    workload = make_workload(RATES, count)
    for percent, visits in workload.traffic.items():
        kinds = Counter(visit.kind for visit in visits)
        assert len(visits) == count
        assert 100 * (count - kinds[Kind.FRESH]) == percent * count
        assert max(kinds[kind] for kind in REPEATS) - min(kinds[kind] for kind in REPEATS) <= 1
    asked = [visit.prompt.prompt for visits in workload.traffic.values() for visit in visits]
    assert len(asked) == len(set(asked))


def test_repeats_are_what_they_say() -> None:
    workload = make_workload(RATES, 30)
    past = {visit.prompt.prompt: visit for visit in workload.past}
    for visit in (visit for visits in workload.traffic.values() for visit in visits):
        before = past.get(visit.prompt.prompt)
        match visit.kind:
            case Kind.SAME:
                assert before is not None
                assert before.temperature == visit.temperature == 0
            case Kind.SAMPLED:
                assert before is not None
                assert before.temperature == visit.temperature == 1
                assert before.seed != visit.seed
            case _:
                assert before is None


def test_a_workload_is_the_same_every_time() -> None:
    assert make_workload(RATES, 15) == make_workload(RATES, 15)


def test_there_are_many_prompts_and_all_slots_are_filled() -> None:
    texts = [prompt.prompt for prompt in repeating_prompts()]
    assert len(set(texts)) == len(texts) == 120
    assert Counter(prompt.kind for prompt in repeating_prompts()) == {"support": 40, "code": 40, "office": 40}
    names = {name for template in json.loads(TEMPLATES.read_text()) for name in template["slots"]}
    assert not any(f"{{{name}}}" in text for name in names for text in texts)
    assert {visit.prompt.prompt for visit in fresh_visits()}.isdisjoint(texts)
    assert len(reworded_visits()) == 60


@pytest.mark.parametrize(
    ("percentages", "count", "message"),
    [((0, 20), 7, "20 % of 7 prompts is no whole number"), ((110,), 10, "110 % of 10"), (RATES, 40, "ask for fewer")],
)
def test_what_cannot_be_is_refused(percentages: tuple[int, ...], count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_workload(percentages, count)
