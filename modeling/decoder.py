"""Decoder: one lean forward for Llama-shaped models (Llama, Mistral, Qwen2, Qwen3) from transformers' own weights.

The modules of transformers spend as long in Python and in unfused products as in arithmetic when only a few rows are
computed. Here q, k, v are one product, gate and up another, and rotary embedding, norms and attention are one call
each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from modeling.attention import attend
from modeling.linear import Linear
from modeling.live_ends import LiveEnds
from modeling.plan import Plan
from modeling.slots import KVShape, KVSlots
from modeling.work import Forward

LEAN_ARCHITECTURES = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Weights of one decoder layer; q_norm, k_norm are None but for Qwen3."""

    input_norm: torch.Tensor
    qkv: Linear
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    out: Linear
    post_norm: torch.Tensor
    gate_up: Linear
    down: Linear


class Decoder:
    """Computes packed rows. Takes over (and empties) the modules of a loaded transformers model."""

    def __init__(self, model: Any, *, max_len: int) -> None:
        config = model.config
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_dim: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.eps: float = config.rms_norm_eps
        self.activation = model.model.layers[0].mlp.act_fn
        self.ends = LiveEnds.of(model)
        self.embedding = self.ends.embedding
        self.final_norm: torch.Tensor = model.model.norm.weight.detach()
        self.cos, self.sin = _rotary_table(model.model.rotary_emb, max_len, self.embedding)
        self.layers = [_take_layer(layer) for layer in model.model.layers]
        self.lm_head = _join(model.lm_head)

    @property
    def kv_shape(self) -> KVShape:
        """What a token leaves in the slots."""
        return KVShape(
            layers=len(self.layers),
            group=self.heads // self.kv_heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            dtype=self.embedding.dtype,
        )

    def forward(self, plan: Plan, slots: KVSlots, taps: tuple[int, ...]) -> Forward:
        """One pass over the plan's rows; see Work for what is read and written."""
        hidden = F.embedding(plan.ids, self.embedding)
        cos, sin = self.cos[plan.positions], self.sin[plan.positions]
        tapped = {}
        for i, layer in enumerate(self.layers):
            normed = self._norm(hidden, layer.input_norm)
            hidden = hidden + self._attention(normed, i, plan, slots, (cos, sin))
            hidden = hidden + self._mlp(self._norm(hidden, layer.post_norm), layer)
            if i in taps:
                tapped[i] = hidden
        picked = self._norm(hidden[plan.logit_rows], self.final_norm)
        return Forward(logits=self.lm_head(picked), taps=tuple(tapped[i] for i in taps))

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, self.eps)

    def _attention(
        self, x: torch.Tensor, index: int, plan: Plan, slots: KVSlots, rotary: tuple[torch.Tensor, torch.Tensor]
    ) -> torch.Tensor:
        layer = self.layers[index]
        qkv = layer.qkv(x).view(x.shape[0], self.heads + 2 * self.kv_heads, self.head_dim)
        if layer.q_norm is not None and layer.k_norm is not None:
            qkv[:, : self.heads] = self._norm(qkv[:, : self.heads], layer.q_norm)
            qkv[:, self.heads : -self.kv_heads] = self._norm(qkv[:, self.heads : -self.kv_heads], layer.k_norm)
        _rotate(qkv[:, : -self.kv_heads], *rotary)
        slots.write(index, plan.slots, plan.kv_rows, qkv[:, self.heads :].view(-1, 2, self.kv_heads, self.head_dim))
        attended = attend(qkv[:, : self.heads], index, plan, slots, self.head_dim**-0.5)
        return layer.out(attended)

    def _mlp(self, x: torch.Tensor, layer: Layer) -> torch.Tensor:
        gate, up = layer.gate_up(x).chunk(2, dim=-1)
        return layer.down(self.activation(gate).mul_(up))


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """Rotary embedding in place: x [R, heads, d]; cos, sin [R, 1, d], the first half of sin negated."""
    swapped = torch.cat(x.chunk(2, dim=-1)[::-1], dim=-1)
    x.mul_(cos).addcmul_(swapped, sin)


def _rotary_table(rotary: Any, max_len: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and signed sin of every position, [max_len, 1, head_dim], by transformers' own (scaled) frequencies."""
    positions = torch.arange(max_len, device=like.device)[None]
    cos, sin = rotary(like, positions)
    half = sin.shape[-1] // 2
    signed = torch.cat((-sin[0, :, :half], sin[0, :, half:]), dim=-1)
    return cos[0].unsqueeze(1).contiguous(), signed.unsqueeze(1).contiguous()


def _join(*modules: Any) -> Linear:
    """One product for modules that read the same input."""
    weights = [m.weight.detach() for m in modules]
    weight = weights[0] if len(weights) == 1 else torch.cat(weights)
    biases = [m.bias.detach() for m in modules if getattr(m, "bias", None) is not None]
    assert len(biases) in (0, len(modules)), "some of the joined projections have a bias, others none"
    return Linear(weight, torch.cat(biases) if biases else None)


def _take_layer(layer: Any) -> Layer:
    """Moves a layer's weights into joined ones and drops the originals, so that two copies exist for one layer only."""
    attention, mlp = layer.self_attn, layer.mlp
    taken = Layer(
        input_norm=layer.input_layernorm.weight.detach(),
        qkv=_join(attention.q_proj, attention.k_proj, attention.v_proj),
        q_norm=attention.q_norm.weight.detach() if hasattr(attention, "q_norm") else None,
        k_norm=attention.k_norm.weight.detach() if hasattr(attention, "k_norm") else None,
        out=_join(attention.o_proj),
        post_norm=layer.post_attention_layernorm.weight.detach(),
        gate_up=_join(mlp.gate_proj, mlp.up_proj),
        down=_join(mlp.down_proj),
    )
    layer.self_attn = layer.mlp = None
    return taken
