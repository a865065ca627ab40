"""argmax_lowest, best_few and best_ids: one order for every path, ties to the lowest id."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from modeling.ranking import argmax_lowest, best_few, best_ids


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocab", [2, 33, 1000, 49152])
def test_argmax_takes_the_lowest_of_equal_maxima(dtype, vocab):
    """C2: alone and in a batch, wherever the ties stand."""
    generator = torch.Generator().manual_seed(vocab)
    batch = torch.randn(24, vocab, generator=generator).to(dtype)
    ties = torch.randint(vocab, (24, 5), generator=generator)
    batch.scatter_(1, ties, 9.0)
    lowest = ties.min(dim=1).values
    assert torch.equal(argmax_lowest(batch), lowest)
    assert [int(argmax_lowest(row)) for row in batch] == lowest.tolist()


@pytest.mark.parametrize("count", [1, 50, 256, 1000])
def test_the_best_few_are_those_of_a_whole_sort(count):
    """Rounded to steps, so that hundreds are equal; only at the end may other ids of the same logit be taken."""
    logits = (torch.randn(2, 3, 1000, generator=torch.Generator().manual_seed(count)) * 20).round() / 20
    values, ids = best_few(logits, count)
    ordered, places = logits.sort(dim=-1, descending=True, stable=True)
    assert torch.equal(values, ordered[..., :count])
    assert torch.equal(logits.gather(-1, ids), values)
    certain = values > ordered[..., count - 1 : count]
    assert torch.equal(ids[certain], places[..., :count][certain])
    assert all(len(set(row)) == count for row in ids.flatten(0, 1).tolist())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_argmax_takes_the_lowest_on_cuda(dtype):
    batch = torch.randn(64, 151_936).to(dtype)
    ties = torch.randint(151_936, (64, 9))
    batch.scatter_(1, ties, 9.0)
    assert torch.equal(argmax_lowest(batch.cuda()).cpu(), ties.min(dim=1).values)


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, -1.0, -6.0, -9.5, -20.0, -np.inf]), min_size=1, max_size=50), st.integers(1, 60))
def test_best_ids_are_those_of_a_stable_sort(scores, count):
    row = np.array([0.0, *scores], np.float32)
    finite = [i for i in np.argsort(-row, kind="stable").tolist() if row[i] > -np.inf]
    assert best_ids(row, count).tolist() == sorted(finite[:count])
