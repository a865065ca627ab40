"""Random EAGLE nets, small, with weights far apart, so that no two tokens are as likely."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from benchmarks.harness.tiny import VOCAB_SIZE
from modeling.eagle_net import EagleNet, EagleNetConfig

TINY = EagleNetConfig(
    hidden_size=32,
    vocab_size=VOCAB_SIZE,
    feature_layers=(0, 1),
    intermediate_size=48,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
)
EAGLE_31: dict[str, Any] = {"norm_taps": True, "feed_normed": True}


def random_net(*, seed: int = 0, **changes: Any) -> EagleNet:
    """A net of TINY's configuration but for `changes`."""
    net = EagleNet(replace(TINY, **changes))
    generator = torch.Generator().manual_seed(seed)
    for name, weight in net.named_parameters():
        spread = torch.randn(weight.shape, generator=generator)
        weight.data = 1 + spread / 4 if "norm" in name else spread / 2
    return net.eval()
