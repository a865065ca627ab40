"""Fusions as the verifier runs them: packed for the CPU, over taps of the target's precision, which may be another."""

from __future__ import annotations

import pytest
import torch

from modeling.fusion import BlockFusion, EagleFusion
from modeling.modules import pack_linears

FUSIONS = {
    "block": lambda: BlockFusion((0, 1), 32, 1e-5),
    "eagle": lambda: EagleFusion((0, 1), 32, 1e-5, norm_taps=False),
    "eagle-norm-taps": lambda: EagleFusion((0, 1), 32, 1e-5, norm_taps=True),
    "eagle-norm-joined": lambda: EagleFusion((0, 1), 32, 1e-5, norm_taps=False, norm_joined=True),
}


@pytest.mark.parametrize("taps_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FUSIONS)
@torch.inference_mode()
def test_packed_it_says_the_same(name: str, dtype: torch.dtype, taps_dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    fusion = FUSIONS[name]().to(dtype).eval()
    taps = [torch.randn(5, 32).to(taps_dtype) for _ in fusion.layers]
    whole = fusion(taps)
    pack_linears(fusion)
    packed = fusion(taps)
    assert packed.dtype == dtype
    assert packed.shape == (5, fusion.width)
    torch.testing.assert_close(packed, whole, atol=2e-2, rtol=2e-2)
