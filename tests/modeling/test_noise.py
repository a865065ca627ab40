"""Noise: one value for a (seed, position, stream, token) everywhere, uniform, independent, bounded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from modeling.noise import (
    NOISE_MAX,
    Stream,
    gumbel,
    gumbel_of_bits,
    gumbel_rows,
    gumbel_scalar,
    may_exceed,
    noise_bits,
    noise_key,
    uniform,
)

SEEDS = st.integers(0, 2**63 - 1)
POSITIONS = st.integers(0, 2**31)
TOKENS = np.arange(4096, dtype=np.uint32)
PINNED = {(0, 0): 0.105841, (1, 2): -0.617729, (2**63 - 1, 2**31): 1.754465}
PINNED_UNIFORM = 0.86791
ALL_BITS = np.arange(1 << 24, dtype=np.uint32)


def test_values_are_pinned():
    """A change of these changes every text ever drawn with a seed."""
    assert [round(gumbel_scalar(noise_key(seed, position), 7), 6) for seed, position in PINNED] == list(PINNED.values())
    assert round(uniform(1, 2, Stream.ACCEPT, 3), 6) == PINNED_UNIFORM


@given(SEEDS, POSITIONS, st.sampled_from(Stream), st.lists(st.integers(0, 2**20), min_size=1, max_size=40))
def test_int_array_and_tensor_agree(seed, position, stream, tokens):
    key = noise_key(seed, position, stream)
    scalar = [gumbel_scalar(key, token) for token in tokens]
    array = gumbel_of_bits(noise_bits(key, np.array(tokens, np.uint32)))
    tensor = gumbel(seed, position, torch.tensor(tokens), stream)
    assert tensor.dtype == torch.float32
    assert scalar == array.tolist() == tensor.tolist()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_cuda_agrees():
    tokens = torch.arange(1 << 20)
    assert torch.equal(gumbel(2**63 - 1, 12345, tokens), gumbel(2**63 - 1, 12345, tokens.cuda()).cpu())


def test_rows_of_many_positions_agree_with_each_alone():
    tokens = torch.tensor([[3, 1, 40000], [7, 7, 0]])
    keys = torch.tensor([noise_key(2**63 - 1, 5), noise_key(0, 8191)])
    together = gumbel_rows(keys, tokens)
    assert torch.equal(together[0], gumbel(2**63 - 1, 5, tokens[0]))
    assert torch.equal(together[1], gumbel(0, 8191, tokens[1]))


def test_the_bound_is_that_of_all_values():
    values = gumbel_of_bits(ALL_BITS)
    assert values.max() == NOISE_MAX < 17.4


def test_no_value_is_near_a_rounding_boundary():
    """So that a maths library whose log is an ulp or two off still gives the same noise."""
    values = -np.log(-np.log((ALL_BITS + 0.5) / 2**24))
    scaled = values * 2**19
    distance = np.abs(scaled - np.floor(scaled) - 0.5) / 2**19
    error_of_float64 = 2.0**-52 * (1 + np.abs(values))
    assert (distance / error_of_float64).min() > 100


def test_every_bit_of_the_seed_and_position_matters():
    base = noise_bits(noise_key(0, 0), TOKENS)
    for bit in range(63):
        assert (noise_bits(noise_key(1 << bit, 0), TOKENS) != base).mean() > 0.99
    for bit in range(32):
        assert (noise_bits(noise_key(0, 1 << bit), TOKENS) != base).mean() > 0.99


def test_bits_are_uniform_over_tokens_and_over_positions():
    over_tokens = noise_bits(noise_key(11, 3), np.arange(1 << 18, dtype=np.uint32))
    over_positions = np.array([noise_bits(noise_key(11, position), 42) for position in range(1 << 15)])
    for bits in (over_tokens, over_positions):
        for part in (bits >> 16, (bits >> 8) & 255, bits & 255):
            assert stats.chisquare(np.bincount(part, minlength=256)).pvalue > 1e-4


@pytest.mark.parametrize(
    "other",
    [
        noise_key(5, 100, Stream.ACCEPT),
        noise_key(5, 100, Stream.RESIDUAL),
        noise_key(5, 101),
        noise_key(6, 100),
        noise_key(5 + (1 << 62), 100),
    ],
)
def test_streams_positions_and_seeds_are_independent(other):
    """C6: no draw shares its randomness with another purpose, position or seed."""
    tokens = np.arange(1 << 18, dtype=np.uint32)
    _assert_independent(noise_bits(noise_key(5, 100), tokens), noise_bits(other, tokens))


@pytest.mark.parametrize("distance", [1, 2, 3, 16, 4096, 1 << 15])
def test_tokens_are_independent(distance):
    pairs = [(noise_key(seed, 9), seed & 0xFFFF) for seed in range(1 << 15)]
    one = np.array([noise_bits(key, token) for key, token in pairs])
    two = np.array([noise_bits(key, token ^ distance) for key, token in pairs])
    _assert_independent(one, two)


def test_may_exceed_rules_out_nothing_that_wins_and_nearly_all_that_cannot():
    values = gumbel_of_bits(ALL_BITS).astype(np.float32)
    assert may_exceed(ALL_BITS, values).all()
    for level in (2.0, 6.0, 12.0):
        passed = int(may_exceed(ALL_BITS, np.full(1, level, np.float32)).sum())
        assert passed <= 1.2 * int((values > level).sum())


def test_uniform_is_strictly_inside_and_differs_by_index():
    drawn = np.array([uniform(seed, 4, Stream.ACCEPT, index) for seed in range(5000) for index in (0, 1)])
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > 1e-4
    _assert_independent((drawn[::2] * 2**24).astype(int), (drawn[1::2] * 2**24).astype(int))


def _assert_independent(one: np.ndarray, two: np.ndarray) -> None:
    """Chi-square of the joint histogram of the top four bits, and of the exclusive or."""
    joint = np.histogram2d(one >> 20, two >> 20, bins=[range(17), range(17)])[0]
    assert stats.chi2_contingency(joint).pvalue > 1e-4
    assert stats.chisquare(np.bincount((one ^ two) & 255, minlength=256)).pvalue > 1e-4
