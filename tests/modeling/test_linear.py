"""Linear: a row's bits do not depend on how many rows are computed with it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from modeling.linear import Linear, PackedLinear, _agreeing_sizes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(96, 65), (576, 1536), (3072, 576), (960, 576)])
def test_rows_have_the_same_bits_in_any_company(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    """On numbers that cancel, so that another order of summing shows in nearly every output."""
    generator = torch.Generator().manual_seed(1)
    half = shape[1] // 2
    weight, x = (torch.randn(n, half, generator=generator).to(dtype) for n in (shape[0], 300))
    rest = (0, shape[1] - 2 * half)
    linear = Linear(F.pad(torch.cat((weight, -weight), 1), rest))
    x = F.pad(torch.cat((x, x), 1), rest)
    alone = torch.cat([linear(x[i : i + 1]) for i in range(300)])
    for count in range(2, 301):
        assert torch.equal(linear(x[:count]), alone[:count]), count


@pytest.mark.parametrize("sizes", [(2,), (2, 4, 8), (5, 8), (33, 48)])
def test_a_product_only_ever_has_a_known_number_of_rows(sizes: tuple[int, ...]) -> None:
    linear = Linear(torch.randn(16, 8))
    linear._sizes = sizes
    seen: list[int] = []
    product = linear._product
    linear._product = lambda x: (seen.append(x.shape[0]), product(x))[1]
    x = torch.randn(100, 8)
    expected = product(x)
    for rows in range(1, 101):
        torch.testing.assert_close(linear(x[:rows]), expected[:rows])
    assert set(seen) == set(sizes)


def test_sizes_whose_bits_differ_are_never_used_together() -> None:
    """As on AMX: up to 32 rows one order of summing, above another, and one odd number that is like neither."""

    def product(x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        return x.sum(1, keepdim=True) + (1 if rows <= 32 else 2 if rows != 80 else 3)

    groups = _agreeing_sizes(product, torch.randn(256, 8))
    assert [(group[0], group[-1]) for group in groups] == [(2, 32), (33, 256), (80, 80)]


@pytest.mark.parametrize("kind", [Linear, PackedLinear])
def test_bias_and_no_rows(kind: type[PackedLinear]) -> None:
    weight, bias, x = torch.randn(6, 4), torch.randn(6), torch.randn(3, 4)
    torch.testing.assert_close(kind(weight, bias)(x), x @ weight.T + bias)
    assert kind(weight)(x[:0]).shape == (0, 6)
