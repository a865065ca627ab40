"""Attention as draft nets do it: keys and values of a context in front of the rows' own, any mask, rotary positions."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F  # noqa: N812

from modeling.net_config import NetConfig

KeysValues = tuple[torch.Tensor, torch.Tensor]
Rotary = tuple[torch.Tensor, torch.Tensor]


def rotary(config: NetConfig, positions: torch.Tensor, dtype: torch.dtype) -> Rotary:
    """cos and sin [..., 1, n, head_dim] of positions [..., n], the first half of sin negated."""
    frequencies = _frequencies(config.head_dim, config.rope_theta, config.rope_frequencies, positions.device)
    angles = positions[..., None, :, None] * frequencies
    cos, sin = angles.cos() * config.rope_scale, angles.sin() * config.rope_scale
    return torch.cat((cos, cos), dim=-1).to(dtype), torch.cat((-sin, sin), dim=-1).to(dtype)


@lru_cache(maxsize=64)
def _frequencies(head_dim: int, theta: float, given: tuple[float, ...] | None, device: torch.device) -> torch.Tensor:
    """[head_dim / 2], computed once: a draft asks for them at every step."""
    with torch.inference_mode(mode=False):
        if given is not None:
            return torch.tensor(given, device=device)
        powers: torch.Tensor = theta ** -(torch.arange(0, head_dim, 2, device=device) / head_dim)
        return powers


def rotate(x: torch.Tensor, by: Rotary) -> torch.Tensor:
    """x [..., heads, n, head_dim]; rolling by half swaps the halves."""
    cos, sin = by
    return x * cos + x.roll(x.shape[-1] // 2, dims=-1) * sin


def fold(mask: torch.Tensor, group: int) -> torch.Tensor:
    """The mask [b, 1, q, n + q] for `group` query heads that share a KV head, as `attend` wants it."""
    return mask.repeat(1, 1, group, 1)


def attend(queries: torch.Tensor, context: KeysValues, own: KeysValues, mask: torch.Tensor) -> torch.Tensor:
    """queries [b, heads, q, head_dim] → [b, q, heads * head_dim]. Keys and values: [b, kv_heads, n or q, head_dim].

    The query heads that share a KV head are folded into rows, [b, kv_heads, group * q, head_dim]: on a CPU one such
    call costs a third of one over all heads. mask: [b, 1, group * q, n + q].
    """
    keys, values = (torch.cat(pair, dim=-2) for pair in zip(context, own, strict=True))
    folded = queries.reshape(len(queries), keys.shape[1], -1, queries.shape[-1])
    attended = F.scaled_dot_product_attention(folded, keys, values, attn_mask=mask)
    return attended.reshape(queries.shape).transpose(1, 2).flatten(2)
