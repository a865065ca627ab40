"""Random block nets, small, with weights far apart, so that no two tokens are as likely."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from benchmarks.harness.tiny import VOCAB_SIZE
from modeling.block_net import BlockNet, BlockNetConfig

TINY = BlockNetConfig(
    hidden_size=32,
    vocab_size=VOCAB_SIZE,
    feature_layers=(0,),
    intermediate_size=48,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    block_size=6,
)
DSPARK: dict[str, Any] = {"markov": "vanilla", "markov_rank": 8, "confidence": True}


def random_net(*, seed: int = 0, **changes: Any) -> BlockNet:
    """A net of TINY's configuration but for `changes`."""
    net = BlockNet(replace(TINY, **changes))
    generator = torch.Generator().manual_seed(seed)
    for name, weight in net.named_parameters():
        spread = torch.randn(weight.shape, generator=generator)
        weight.data = 1 + spread / 4 if "norm" in name else spread / 2
    return net.eval()
