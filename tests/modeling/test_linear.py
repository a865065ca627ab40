"""Linear: a row's bits do not depend on how many rows are computed with it."""

from __future__ import annotations

import pytest
import torch

from modeling.linear import SMALLEST_BLOCK, Linear


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(96, 64), (576, 1536), (3072, 576)])
def test_rows_have_the_same_bits_in_any_company(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(1)
    linear = Linear(torch.randn(shape, generator=generator).to(dtype))
    x = torch.randn(300, shape[1], generator=generator).to(dtype)
    alone = torch.cat([linear(x[i : i + 1]) for i in range(300)])
    for count in [*range(2, 70), 97, 128, 129, 255, 256, 257, 300]:
        assert torch.equal(linear(x[:count]), alone[:count]), count


@pytest.mark.parametrize("block", [SMALLEST_BLOCK, 8])
def test_no_block_ever_holds_a_single_row(block: int) -> None:
    linear = Linear(torch.randn(16, 8))
    linear.row_block = block
    seen: list[int] = []
    product = linear._product
    linear._product = lambda x: (seen.append(x.shape[0]), product(x))[1]
    for rows in range(1, 40):
        assert linear(torch.randn(rows, 8)).shape == (rows, 16)
    assert set(seen) <= set(range(2, block + 1))


def test_bias_and_no_rows() -> None:
    weight, bias, x = torch.randn(6, 4), torch.randn(6), torch.randn(3, 4)
    torch.testing.assert_close(Linear(weight, bias)(x), x @ weight.T + bias)
    assert Linear(weight)(x[:0]).shape == (0, 6)
