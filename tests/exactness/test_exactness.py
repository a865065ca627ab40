"""Token ids with speculation == token ids of plain decoding: every drafter, shape, way of sampling and history.

In fp32 for all; in bf16 for chains, where the packed forward gives the same bits whatever else is computed. The side
branches of a tree see their keys in another order, so bf16 near-ties may flip there (benchmarks/numerics measures it).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protos.messages import Request
from tests.exactness.rig import DRAFTERS, Reference, answers_of, engine
from tests.fakes.running import Outcome, run
from verifier.engine import Engine

pytestmark = pytest.mark.model


@pytest.fixture(scope="module", params=["none", *DRAFTERS])
def case(
    request: pytest.FixtureRequest, reference: Reference, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engine, list[Request], dict[str, Outcome]]]:
    target, requests, outcomes = reference
    if request.param == "none":
        yield engine(target), requests, outcomes
        return
    if target.dtype.itemsize == 2 and request.param.endswith("tree"):
        pytest.skip("bf16 trees: the flip rate is measured by benchmarks/numerics")
    folder = tmp_path_factory.mktemp(request.param)
    drafter = DRAFTERS[request.param](target, answers_of(requests, outcomes), folder)
    yield engine(target, drafter), requests, outcomes


def test_alone_and_again(case: tuple[Engine, list[Request], dict[str, Outcome]]) -> None:
    """Cases C1, K1, K2, S1, S4, S6; K5, R2, B5: from scratch, then from the rows that the first time left."""
    tested, requests, expected = case
    for one in requests[:3]:
        first, again = run(tested, [one]), run(tested, [one])
        for outcomes in (first, again):
            assert_same(outcomes, {one.request_id: expected[one.request_id]})
        assert first[one.request_id].stats.cached_prompt_tokens < len(one.prompt_ids) - 1
        assert again[one.request_id].stats.cached_prompt_tokens == len(one.prompt_ids) - 1
        if tested.stats().drafter is not None:
            assert again[one.request_id].stats.speculation.verified > 0, "nothing was drafted, so nothing was shown"


def test_in_a_batch_of_eight(case: tuple[Engine, list[Request], dict[str, Outcome]]) -> None:
    """Case B2. Prompts were seen before, so prefixes are reused as well."""
    tested, requests, expected = case
    assert_same(run(tested, requests), expected)


def test_after_neighbours_were_aborted(case: tuple[Engine, list[Request], dict[str, Outcome]]) -> None:
    """Case A4: four neighbours leave in the middle, others take their slots."""
    tested, requests, expected = case
    leaving = [named(r, "leaving") for r in requests[4:]]

    def each_step(step: int) -> None:
        if step == 3:
            for one in leaving:
                tested.abort(one.request_id)
            tested.add(requests[4])

    outcomes = run(tested, [*requests[:4], *leaving], each_step=each_step)
    assert_same({r.request_id: outcomes[r.request_id] for r in requests[:5]}, expected)
    assert tested.stats().num_requests_running == 0
    assert tested.stats().kv_cache_usage == 0


def test_oracle_and_adversary_do_what_they_are_named_for(reference: Reference, tmp_path: Path) -> None:
    """A suite whose drafters never get a token accepted, or never refused, would show nothing."""
    target, requests, outcomes = reference
    answers = answers_of(requests, outcomes)
    accepted = {}
    for name in ("oracle-chain", "partial-chain", "adversary-chain"):
        tested = engine(target, DRAFTERS[name](target, answers, tmp_path))
        drafts = run(tested, requests[:1])[requests[0].request_id].stats.speculation
        accepted[name] = drafts.accepted / drafts.verified
    assert accepted["oracle-chain"] == 1
    assert accepted["adversary-chain"] == 0
    assert 0 < accepted["partial-chain"] < 1


def named(one: Request, name: str) -> Request:
    return Request(request_id=f"{name}-{one.request_id}", prompt_ids=one.prompt_ids, params=one.params)


def assert_same(outcomes: dict[str, Outcome], expected: dict[str, Outcome]) -> None:
    for request_id, outcome in outcomes.items():
        right = expected[request_id]
        assert outcome.error is None
        assert outcome.tokens == right.tokens, request_id
        assert (outcome.text, outcome.finish) == (right.text, right.finish), request_id
