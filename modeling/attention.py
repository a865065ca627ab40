"""Attention of packed rows over KV slots."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from modeling.plan import AttentionGroup, Plan
from modeling.slots import KVSlots


def attend(q: torch.Tensor, layer: int, plan: Plan, slots: KVSlots, scale: float) -> torch.Tensor:
    """Each query row looks at its own slot. q: [R, heads, head_dim] → [R, heads * head_dim].

    Keys and values of these rows are already in the slots. The query heads that share a KV head are folded into rows,
    so one call does every head and reads each key once; the folded rows are padded (plan.QUERY_STEP) and the key length
    is rounded up (modeling.kv_step), which keeps the bits of a row whatever else is computed with it.
    """
    parts = []
    for group in plan.groups:
        keys, values = slots.view(layer, group.slots, group.kv_len)
        folded = _fold(q, group, keys.shape[1])
        out = F.scaled_dot_product_attention(folded, keys, values, attn_mask=group.mask, scale=scale)
        parts.append(_unfold(out, group.size, q.shape[1]))
    joined = parts[0] if len(parts) == 1 else torch.cat(parts)
    return joined if plan.restore is None else joined[plan.restore]


def _fold(q: torch.Tensor, group: AttentionGroup, kv_heads: int) -> torch.Tensor:
    """[R, heads, d] → [b, kv_heads, padded rows, d], row = query * (heads that share a KV head) + head among them."""
    heads, d = q.shape[1:]
    b, n, shared = group.mask.shape[0], group.size, heads // kv_heads
    picked = q if group.rows is None else q[group.rows]
    folded = q.new_zeros(b, kv_heads, group.mask.shape[2], d)
    by_query = folded[:, :, : n * shared].view(b, kv_heads, n, shared, d)
    by_query.copy_(picked.view(b, n, kv_heads, shared, d).transpose(1, 2))
    return folded


def _unfold(out: torch.Tensor, n: int, heads: int) -> torch.Tensor:
    """[b, kv_heads, padded rows, d] → [b * n, heads * d]."""
    b, kv_heads, _, d = out.shape
    shared = heads // kv_heads
    by_query = out[:, :, : n * shared].reshape(b, kv_heads, n, shared, d)
    return by_query.transpose(1, 2).reshape(b * n, heads * d)
