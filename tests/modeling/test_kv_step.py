"""kv_step: attention gives a row the same bits at every multiple of the step, also where sums cancel."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from modeling import kv_step as module
from modeling.kv_step import STEPS, kv_step

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_multiples_of_the_step_agree(dtype: torch.dtype) -> None:
    step = kv_step(dtype, kv_heads=3, head_dim=64, device=CPU)
    generator = torch.Generator().manual_seed(7)
    halves = (torch.randn(1, 3, 768, 64, generator=generator) for _ in range(2))
    keys, values = (torch.cat((half, sign * half), dim=2).to(dtype) for half, sign in zip(halves, (1, -1), strict=True))
    queries = torch.randn(1, 3, 32, 64, generator=generator).to(dtype)
    for length in (5, 100, 400, 1000):
        results = []
        for kv_len in range(-(-length // step) * step, 1537, step):
            mask = torch.zeros(1, 1, 32, kv_len, dtype=dtype)
            mask[..., length:] = -math.inf
            results.append(
                F.scaled_dot_product_attention(queries, keys[:, :, :kv_len], values[:, :, :kv_len], attn_mask=mask)
            )
        assert all(torch.equal(result, results[0]) for result in results), (length, step)


def test_a_step_that_changes_a_bit_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    real = F.scaled_dot_product_attention

    def another_order_below_256(*args: torch.Tensor, attn_mask: torch.Tensor) -> torch.Tensor:
        return real(*args, attn_mask=attn_mask) + (1 if args[1].shape[2] % 256 else 0)

    monkeypatch.setattr(module.F, "scaled_dot_product_attention", another_order_below_256)
    monkeypatch.setattr(module, "_steps", {})
    assert kv_step(torch.bfloat16, kv_heads=1, head_dim=8, device=CPU) == 256
    assert kv_step(torch.bfloat16, kv_heads=1, head_dim=8, device=torch.device("meta")) == STEPS[0]
