"""token_logprob: raw log-softmax, ranks from 1, ties by id."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from modeling.logprobs import token_logprob


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 500), st.integers(0, 2**32), st.sampled_from([torch.float32, torch.bfloat16]), st.integers(0, 20))
def test_equals_log_softmax_and_a_stable_sort(vocab, seed, dtype, num_top):
    row = (torch.randn(vocab, generator=torch.Generator().manual_seed(seed)) * 4).to(dtype)
    expected = row.float().log_softmax(0)
    order = row.float().sort(descending=True, stable=True).indices.tolist()
    for token in {0, vocab - 1, order[0]}:
        entry = token_logprob(row, token, num_top)
        assert entry.logprob == pytest.approx(float(expected[token]), abs=1e-5)
        assert entry.rank == order.index(token) + 1
        assert [i for i, _ in entry.top] == order[:num_top]
        assert [value for _, value in entry.top] == pytest.approx(expected[order[:num_top]].tolist(), abs=1e-5)


def test_is_zero_only_where_the_token_is_certain():
    """S9: a drafted token's logprob is its own, not a placeholder."""
    assert token_logprob(torch.tensor([0.0, 1.0]), 1, 0).logprob < -0.1
    assert token_logprob(torch.tensor([0.0, 1000.0]), 1, 0).logprob == 0


def test_top_is_one_tuple_for_each_alternative():
    entry = token_logprob(torch.tensor([1.0, 1.0, 0.0]), 2, 2)
    assert [token for token, _ in entry.top] == [0, 1]
    assert entry.rank == 3
