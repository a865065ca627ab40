"""kv_step: to which multiple a KV length is rounded up, so that attention gives a row the same bits at any length.

A row's keys end somewhere within the padded length, which its neighbours in the batch and later steps make longer. The
zeros that this adds to a sum change nothing, but the blocks in which a CPU kernel sums may follow the length. So the
smallest step is taken whose multiples were all seen to agree on this machine.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812

from modeling.plan import round_up

STEPS = (64, 128, 256, 512)  # torch's CPU kernel goes over keys in blocks of 512, so longer lengths repeat shorter ones
LONGEST = 1024
LENGTHS = (1, 37, 130, 333, 700)
QUERIES = (8, 16, 24, 40, 64, 128)

_steps: dict[tuple[torch.dtype, int, int, int], int] = {}


def kv_step(dtype: torch.dtype, *, kv_heads: int, head_dim: int, device: torch.device) -> int:
    """The step; known per type, shape and threads. Where the device is no CPU no step keeps the bits: the smallest."""
    if device.type != "cpu":
        return STEPS[0]
    key = (dtype, kv_heads, head_dim, torch.get_num_threads())
    if key not in _steps:
        probe = _Probe(dtype, kv_heads, head_dim)
        _steps[key] = next((step for step in STEPS[:-1] if probe.agrees(step)), STEPS[-1])
    return _steps[key]


class _Probe:
    """Attention whose sums cancel: the value of every key but a few comes again negated, at a key that weighs the same.

    What is left is little more than rounding, so that another order of summing shows in nearly every output.
    """

    def __init__(self, dtype: torch.dtype, kv_heads: int, head_dim: int) -> None:
        generator = torch.Generator().manual_seed(0)
        half = (2, kv_heads, LONGEST // 2, head_dim)
        keys, values = (torch.randn(half, generator=generator) for _ in range(2))
        place = torch.randperm(LONGEST, generator=generator)
        self._keys = torch.cat((keys, keys), dim=2)[:, :, place].to(dtype)
        self._values = torch.cat((values, -values), dim=2)[:, :, place].to(dtype)
        queries = (2, kv_heads, max(QUERIES), head_dim)
        self._queries = torch.randn(queries, generator=generator).to(dtype)

    def agrees(self, step: int) -> bool:
        """Every real length gives the same bits at each multiple of `step` that holds it."""
        return all(
            len({self._bits(count, length, kv_len) for kv_len in range(round_up(length, step), LONGEST + 1, step)}) == 1
            for count in QUERIES
            for length in LENGTHS
        )

    def _bits(self, count: int, length: int, kv_len: int) -> bytes:
        mask = torch.zeros(2, 1, count, kv_len, dtype=self._queries.dtype)
        mask[..., length:] = -math.inf
        queries, keys, values = self._queries[:, :, :count], self._keys[:, :, :kv_len], self._values[:, :, :kv_len]
        out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        return out.view(torch.uint8).numpy().tobytes()
