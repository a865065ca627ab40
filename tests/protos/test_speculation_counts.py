"""SpeculationCounts, RequestStats: accepted length, and sums over requests whose drafts differ in length."""

from __future__ import annotations

from protos.messages import RequestStats
from protos.speculation_counts import SpeculationCounts

A = SpeculationCounts(num_drafts=2, drafted=8, verified=6, accepted_per_pos=(2, 1), sources={"suffix": 3})
B = SpeculationCounts(num_drafts=2, drafted=4, verified=4, accepted_per_pos=(2, 2, 1), sources={"cached": 5})


def test_accepted_length_counts_the_targets_own_token() -> None:
    assert A.accepted_length == 1 + 3 / 2
    assert SpeculationCounts().accepted_length == 1


def test_acceptance_by_position_is_a_share_of_all_drafts() -> None:
    assert B.acceptance_by_position == (1, 1, 0.5)
    assert SpeculationCounts().acceptance_by_position == ()


def test_a_sum_is_over_all_counts_and_positions() -> None:
    total = SpeculationCounts(
        num_drafts=4, drafted=12, verified=10, accepted_per_pos=(4, 3, 1), sources={"suffix": 3, "cached": 5}
    )
    assert A + B == B + A == total


def test_a_sum_of_requests_is_over_all_fields() -> None:
    one = RequestStats(speculation=A, steps=5, queue_seconds=0.5)
    other = RequestStats(speculation=B, steps=3, cached_prompt_tokens=7, queue_seconds=1.0)
    total = RequestStats(speculation=A + B, steps=8, cached_prompt_tokens=7, queue_seconds=1.5)
    assert sum((one, other), RequestStats()) == total
