"""RequestStats: accepted length, and the sum over requests whose drafts differ in length."""

from __future__ import annotations

from protos.messages import RequestStats

A = RequestStats(num_drafts=2, drafted=8, verified=6, accepted_per_pos=(2, 1), steps=5, sources={"suffix": 3})
B = RequestStats(num_drafts=2, drafted=4, verified=4, accepted_per_pos=(2, 2, 1), steps=3, cached_prompt_tokens=7)


def test_accepted_length_counts_the_targets_own_token() -> None:
    assert A.accepted_length == 1 + 3 / 2
    assert RequestStats(steps=4).accepted_length is None


def test_a_sum_is_over_all_fields_and_positions() -> None:
    total = A + B
    assert total == sum((B, A), RequestStats())
    assert total == RequestStats(
        num_drafts=4,
        drafted=12,
        verified=10,
        accepted_per_pos=(4, 3, 1),
        steps=8,
        cached_prompt_tokens=7,
        sources={"suffix": 3},
    )
    assert total.accepted_length == 1 + 8 / 4
