"""Fingerprints: which weights and which tokenizer, or which tokenizer alone, in one short string."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import torch

BLOCKS = 64
BLOCK = 1024


def fingerprint(config: dict[str, Any], tensors: Iterable[tuple[str, torch.Tensor]], tokenizer_json: str) -> str:
    """Hex digest over the shape-giving config, evenly spread samples of every tensor, and the whole tokenizer.

    Samples (BLOCKS blocks of BLOCK numbers a tensor) keep it under a second for any model; training moves every weight,
    so two different checkpoints differ in the samples too.
    """
    shaping = {k: v for k, v in config.items() if not k.startswith("_") and k != "transformers_version"}
    digest = hashlib.sha256(json.dumps(shaping, sort_keys=True, default=str).encode())
    for name, tensor in tensors:
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        flat = tensor.detach().reshape(-1)
        stride = max(flat.numel() // BLOCKS, 1)
        for start in range(0, flat.numel(), stride):
            block = flat[start : start + min(BLOCK, stride)].contiguous()
            digest.update(block.view(torch.uint8).cpu().numpy().tobytes())
    digest.update(tokenizer_json.encode())
    return digest.hexdigest()[:32]


def tokenizer_print(tokenizer_json: str) -> str:
    """Hex digest of a tokenizer alone: where it is the same, token ids mean the same."""
    return hashlib.sha256(tokenizer_json.encode()).hexdigest()[:32]
