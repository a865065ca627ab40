"""Linear: a weight, packed for the CPU, whose rows do not depend on each other's number.

On CPU the weight is re-ordered once for oneDNN, which makes a product as cheap for eight rows as for one. The kernel
that oneDNN picks still depends on the number of rows, and with it the order of the sums: a product is therefore cut
into blocks of at most `row_block` rows, the largest size for which this machine was seen to give the same bits for any
number of rows.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812

Product = Callable[[torch.Tensor], torch.Tensor]

ROW_BLOCKS = (512, 256, 128, 64, 32, 16, 8)
SMALLEST_BLOCK = 2
WIDE = 8192  # outputs; from there on (an LM head) trying large blocks would take seconds, and few rows ever come

_row_blocks: dict[tuple[int, int, torch.dtype, int], int] = {}


class Linear:
    """y = x Wᵀ + b for x of shape [rows, in]. On CPU bit-equal for a row wherever and with whomever it is computed."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self.bias = bias
        if weight.device.type == "cpu":
            self._product = _packed_product(weight, bias)
            self.row_block = _find_row_block(self._product, weight)
        else:
            self._product = lambda x: F.linear(x, weight, bias)
            self.row_block = 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        if rows == 0:
            return x.new_empty(0, self.out_features)
        if self.row_block == 0 or 1 < rows <= self.row_block:
            return self._product(x)
        if rows == 1:  # one row alone takes another kernel than two: a twin keeps the bits
            return self._product(x.expand(2, -1).contiguous())[:1]
        return _blockwise(self._product, x, self.row_block)


def _packed_product(weight: torch.Tensor, bias: torch.Tensor | None) -> Product:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
    linear = torch.ops.mkldnn._linear_pointwise

    def product(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = linear(x, packed, bias, "none", [], "")
        return result

    return product


def _blockwise(product: Product, x: torch.Tensor, block: int) -> torch.Tensor:
    rows = x.shape[0]
    alone = rows % block == 1
    parts = [product(x[a : a + block]) for a in range(0, rows - alone, block)]
    if alone:  # a single row left over is computed with the one before it
        parts.append(product(x[rows - 2 :])[1:])
    return torch.cat(parts)


def _find_row_block(product: Product, weight: torch.Tensor) -> int:
    """The largest block in which any number of rows gave the same bits here; known per shape, type and threads."""
    key = (*weight.shape, weight.dtype, torch.get_num_threads())
    if key not in _row_blocks:
        candidates = (b for b in ROW_BLOCKS if weight.shape[0] <= WIDE or b <= 64)
        _row_blocks[key] = next((b for b in candidates if _is_invariant(product, weight, b)), SMALLEST_BLOCK)
    return _row_blocks[key]


def _is_invariant(product: Product, weight: torch.Tensor, block: int) -> bool:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(block, weight.shape[1], generator=generator).to(weight.dtype)
    reference = torch.cat([product(x[i : i + 8]) for i in range(0, block, 8)])
    counts = {
        *range(2, 10),
        *range(15, 18),
        *range(31, 34),
        48,
        63,
        64,
        block // 2 + 1,
        block * 3 // 4,
        block - 1,
        block,
    }
    return all(torch.equal(product(x[:k]), reference[:k]) for k in sorted(counts, reverse=True) if 2 <= k <= block)
