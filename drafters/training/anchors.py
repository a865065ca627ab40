"""Anchors: where in an answer the blocks begin. The token at an anchor and the one after it are the answer's."""

from __future__ import annotations

import hashlib

import torch

from drafters.training.answers import Example


def draw_anchors(example: Example, count: int, generator: torch.Generator) -> torch.Tensor:
    """Up to `count` different positions, ascending, each place of the answer but the last equally likely."""
    eligible = len(example.tokens) - 1 - example.prompt_len
    return example.prompt_len + torch.randperm(eligible, generator=generator)[:count].sort().values


def spread_anchors(example: Example, count: int, predictions: int) -> torch.Tensor:
    """Up to `count` positions, evenly spread over those that have `predictions` tokens of the answer after them."""
    first, last = example.prompt_len, len(example.tokens) - 1 - predictions
    if last < first:
        return torch.empty(0, dtype=torch.long)
    return torch.linspace(first, last, min(count, last - first + 1)).round().long()


def generator_for(*numbers: int) -> torch.Generator:
    """Randomness that depends on the numbers alone: whoever knows the place in a run can draw the same again."""
    digest = hashlib.blake2b("/".join(map(str, numbers)).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
