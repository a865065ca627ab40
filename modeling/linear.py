"""Linear: a weight, packed for the CPU, whose rows do not depend on their number. PackedLinear: one where they may.

On CPU the weight is re-ordered once for oneDNN, which makes a product as cheap for eight rows as for one. The kernel
that oneDNN picks still depends on the number of rows, and with it the order of the sums, in ways that only trying
shows: on AMX 320 rows may differ from 256 and from 384. So a product is only ever computed over one of a few numbers
of rows that were all seen to give the same bits on this machine; rows are padded to the next, or cut into blocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812

Product = Callable[[torch.Tensor], torch.Tensor]

SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 33, 36, 40, 48, 64, 80, 96, 128, 160, 192, 224, 256)
ENOUGH = 128  # rows in one product; from there on a prompt is computed at nearly full speed
WIDE = 8192  # outputs; from there on (an LM head) a try takes long, says much, and few rows ever come
TRIED_ROWS = 256
TRIED_ROWS_WHERE_WIDE = 64

_sizes: dict[tuple[int, int, torch.dtype, int], tuple[int, ...]] = {}


class PackedLinear:
    """y = x Wᵀ + b for x of shape [rows, in]. On CPU the last bits of a row may depend on how many are computed."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self.dtype = weight.dtype
        if weight.device.type == "cpu":
            self._product = _packed_product(weight, bias)
        else:
            self._product = lambda x: F.linear(x, weight, bias)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._product(x) if x.shape[0] else x.new_empty(0, self.out_features)


class Linear(PackedLinear):
    """The same, and on CPU bit-equal for a row wherever and with whomever it is computed."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__(weight, bias)
        on_cpu = weight.device.type == "cpu"
        self._sizes = _find_sizes(self.out_features, self.in_features, weight.dtype) if on_cpu else ()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        if not rows or not self._sizes:
            return super().__call__(x)
        most = self._sizes[-1]
        if rows <= most:
            return self._padded(x)
        return torch.cat([self._padded(x[start : start + most]) for start in range(0, rows, most)])

    def _padded(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        size = self._sizes[bisect_left(self._sizes, rows)]
        return self._product(x) if size == rows else self._product(F.pad(x, (0, 0, 0, size - rows)))[:rows]


def _packed_product(weight: torch.Tensor, bias: torch.Tensor | None) -> Product:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
    linear = torch.ops.mkldnn._linear_pointwise

    def product(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = linear(x, packed, bias, "none", [], "")
        return result

    return product


def _find_sizes(out_features: int, in_features: int, dtype: torch.dtype) -> tuple[int, ...]:
    """The numbers of rows to compute with on this machine; known per shape, type and threads.

    Of the groups that agree, those that reach far enough for a prompt come first, then the one that pads a row least.
    """
    key = (out_features, in_features, dtype, torch.get_num_threads())
    if key not in _sizes:
        rows = TRIED_ROWS if out_features <= WIDE else TRIED_ROWS_WHERE_WIDE
        x, weight = _cancelling(rows, out_features, in_features, dtype)
        groups = _agreeing_sizes(_packed_product(weight, None), x)
        _sizes[key] = min(groups, key=lambda sizes: (max(0, min(ENOUGH, rows) - sizes[-1]), sizes[0]))
    return _sizes[key]


def _cancelling(rows: int, out_features: int, in_features: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Rows [rows, in] and a weight whose products sum up to nothing but rounding: another order, other bits everywhere.

    With ordinary numbers a change of kernel shows in one row of a hundred, and would be overlooked.
    """
    generator = torch.Generator().manual_seed(0)
    half = in_features // 2
    x, weight = (torch.randn(n, half, generator=generator).to(dtype) for n in (rows, out_features))
    place = torch.randperm(2 * half, generator=generator)
    x, weight = torch.cat((x, x), dim=1)[:, place], torch.cat((weight, -weight), dim=1)[:, place]
    return F.pad(x, (0, in_features - 2 * half)), F.pad(weight, (0, in_features - 2 * half))


def _agreeing_sizes(product: Product, x: torch.Tensor) -> list[tuple[int, ...]]:
    """SIZES in groups: within one, every row of x has the same bits for every size and in every place."""
    results: list[torch.Tensor] = []
    groups: list[list[int]] = []
    for size in (size for size in SIZES if size <= x.shape[0]):
        result = _by_blocks(product, x, size)
        same = next((i for i, other in enumerate(results) if torch.equal(result, other)), None)
        if same is None:
            results.append(result)
            groups.append([size])
        else:
            groups[same].append(size)
    return [tuple(group) for group in groups]


def _by_blocks(product: Product, x: torch.Tensor, size: int) -> torch.Tensor:
    rows = x.shape[0]
    whole = rows - rows % size
    parts = [product(x[start : start + size]) for start in range(0, whole, size)]
    if whole < rows:
        parts.append(product(x[rows - size :])[whole - rows :])
    return torch.cat(parts)
