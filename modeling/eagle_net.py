"""EagleNet: the network of eagle3 and p_eagle, which reads the text as the target does, but a token ahead.

Element i of a text is the embedding of token i + 1 together with the target's fused feature of position i, and stands
at position i + 1 (arXiv 2503.01840): its output predicts token i + 2. Where the text ends, eagle3 goes on token by
token with its own states for features; p_eagle lets further slots ride along in the same forward (arXiv 2602.01469).
Embedding and LM head are the target's and belong to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from modeling.draft_attention import KeysValues, Rotary, attend, fold, rotary, rotate
from modeling.draft_vocab import DraftVocabNet
from modeling.fusion import EagleFusion
from modeling.net_config import NetConfig
from modeling.norm import RMSNorm

SlotInputs = Literal["none", "fused", "mask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EagleNetConfig(NetConfig):
    """What an EagleNet is, beyond the sizes of all draft nets.

    slots: what the slots 2 to num_slots of one forward are fed; "fused": a linear map of the last feature for each,
    and the anchor's embedding; "mask": one learned feature and one learned embedding; "none": num_slots is 1, and
    tokens are drafted one by one. norm_taps, feed_normed: each tapped state is normed before the fusion, and the next
    step is fed the state after the final norm (EAGLE-3.1). norm_joined: all of them are normed before the fusion as
    one vector. norm_residual: the first layer's residual stream starts with the normed feature. qk_norm: queries and
    keys are normed in each head.
    """

    slots: SlotInputs = "none"
    num_slots: int = 1
    norm_taps: bool = False
    feed_normed: bool = False
    norm_joined: bool = False
    norm_residual: bool = False
    qk_norm: bool = False


class EagleNet(DraftVocabNet):
    """b: rows of a batch, q: elements of a forward, n: elements before them, K: num_slots."""

    def __init__(self, config: EagleNetConfig) -> None:
        super().__init__(config)
        self.config = config
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.fusion = eagle_fusion(config)
        self.embed_norm = RMSNorm(hidden, eps)
        self.layers = nn.ModuleList(
            EagleLayer(config, width=2 * hidden if layer == 0 else hidden) for layer in range(config.num_layers)
        )
        self.norm = RMSNorm(hidden, eps)
        if config.slots == "fused":
            self.slot_features = nn.Linear(hidden, (config.num_slots - 1) * hidden, bias=False)
            # Near the last feature itself, each slot learns faster than from a random map.
            self.slot_features.weight.data += torch.eye(hidden).repeat(config.num_slots - 1, 1)
        if config.slots == "mask":
            self.mask_embedding = nn.Parameter(torch.randn(hidden) * 0.02)
            self.mask_feature = nn.Parameter(torch.randn(hidden) * 0.02)

    @property
    def dtype(self) -> torch.dtype:
        """What the net computes in."""
        return self.norm.weight.dtype

    def forward(
        self,
        embeds: torch.Tensor,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        contexts: Sequence[KeysValues],
        mask: torch.Tensor,
    ) -> tuple[torch.Tensor, tuple[KeysValues, ...]]:
        """States [b, q, d], which a next step takes for `hidden`, and each layer's keys and values of the q elements.

        embeds, hidden: [b, q, d]; positions: [b, q]. contexts: each layer's keys and values of the elements before,
        [b, kv_heads, n, head_dim]. mask: bool [b, 1, q, n + q], True where an element may look, first at the context,
        then at the q. Every element must see something.
        """
        states, own = self._through(self.config.num_layers, embeds, hidden, positions, contexts, mask)
        return self.norm(states) if self.config.feed_normed else states, own

    def context(
        self,
        embeds: torch.Tensor,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        contexts: Sequence[KeysValues],
        mask: torch.Tensor,
    ) -> tuple[KeysValues, ...]:
        """The keys and values that `forward` gives; the last layer computes no more than these."""
        last = self.config.num_layers - 1
        states, own = self._through(last, embeds, hidden, positions, contexts[:last], mask)
        layer, turn = self._layers()[last], self._rotary(positions, states.dtype)
        return *own, layer.keys_values(self._seen(last, embeds, states), turn)

    def normed(self, states: torch.Tensor) -> torch.Tensor:
        """What the LM head reads, of the states that `forward` gives."""
        normed: torch.Tensor = states if self.config.feed_normed else self.norm(states)
        return normed

    def slot_inputs(self, features: torch.Tensor, anchor_embeds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """embeds and hidden [..., K - 1, d] of slots 2 to K, from the feature of the last element and the embedding of
        its token, the anchor: [..., d] each."""
        shape = (*features.shape[:-1], self.config.num_slots - 1, self.config.hidden_size)
        if self.config.slots == "fused":
            return anchor_embeds.unsqueeze(-2).expand(shape), self.slot_features(features).view(shape)
        embedding, feature = self.mask_embedding.to(features.dtype), self.mask_feature.to(features.dtype)
        return embedding.expand(shape), feature.expand(shape)

    def _through(
        self,
        count: int,
        embeds: torch.Tensor,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        contexts: Sequence[KeysValues],
        mask: torch.Tensor,
    ) -> tuple[torch.Tensor, tuple[KeysValues, ...]]:
        """States after the first `count` layers, and their keys and values."""
        turn = self._rotary(positions, hidden.dtype)
        folded = fold(mask, self.config.num_heads // self.config.num_kv_heads)
        own = []
        for index, context in zip(range(count), contexts, strict=True):
            layer, seen = self._layers()[index], self._seen(index, embeds, hidden)
            own.append(layer.keys_values(seen, turn))
            if index == 0 and self.config.norm_residual:
                hidden = seen[..., self.config.hidden_size :]
            hidden = layer(hidden, layer.queries(seen, turn), context, own[-1], folded)
        return hidden, tuple(own)

    def _seen(self, index: int, embeds: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """What a layer makes queries, keys and values of: the first one of the token as well."""
        normed: torch.Tensor = self._layers()[index].input_norm(hidden)
        return torch.cat((self.embed_norm(embeds), normed), dim=-1) if index == 0 else normed

    def _layers(self) -> Sequence[EagleLayer]:
        return self.layers  # type: ignore[return-value]

    def _rotary(self, positions: torch.Tensor, dtype: torch.dtype) -> Rotary:
        return rotary(self.config, positions, dtype)


def eagle_fusion(config: EagleNetConfig) -> EagleFusion:
    """The net's first part alone."""
    norms = {"norm_taps": config.norm_taps, "norm_joined": config.norm_joined}
    return EagleFusion(config.feature_layers, config.hidden_size, config.rms_norm_eps, **norms)


class EagleLayer(nn.Module):
    """A decoder layer as Llama's, whose attention may read wider vectors than its residual stream."""

    def __init__(self, config: EagleNetConfig, *, width: int) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.head_dim, self.kv_heads = config.head_dim, config.num_kv_heads
        query, key = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.input_norm = RMSNorm(hidden, eps)
        self.q = nn.Linear(width, query, bias=False)
        self.kv = nn.Linear(width, 2 * key, bias=False)
        self.q_norm = RMSNorm(config.head_dim, eps) if config.qk_norm else None
        self.k_norm = RMSNorm(config.head_dim, eps) if config.qk_norm else None
        self.out = nn.Linear(query, hidden, bias=False)
        self.post_norm = RMSNorm(hidden, eps)
        self.gate_up = nn.Linear(hidden, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, hidden, bias=False)

    def queries(self, seen: torch.Tensor, turn: Rotary) -> torch.Tensor:
        """[b, q, width] → rotated queries [b, heads, q, head_dim]."""
        queries = self.q(seen).unflatten(-1, (-1, self.head_dim))
        normed = queries if self.q_norm is None else self.q_norm(queries)
        return rotate(normed.transpose(1, 2), turn)

    def keys_values(self, seen: torch.Tensor, turn: Rotary) -> KeysValues:
        """[b, q, width] → rotated keys, and values, each [b, kv_heads, q, head_dim]."""
        keys, values = self.kv(seen).unflatten(-1, (2, self.kv_heads, self.head_dim)).unbind(-3)
        normed = keys if self.k_norm is None else self.k_norm(keys)
        return rotate(normed.transpose(1, 2), turn), values.transpose(1, 2)

    def forward(
        self, x: torch.Tensor, queries: torch.Tensor, context: KeysValues, own: KeysValues, mask: torch.Tensor
    ) -> torch.Tensor:
        """[b, q, d] → [b, q, d]; mask: [b, 1, group * q, n + q]."""
        x = x + self.out(attend(queries, context, own, mask))
        gate, up = self.gate_up(self.post_norm(x)).chunk(2, dim=-1)
        mixed: torch.Tensor = self.down(F.silu(gate) * up)
        return x + mixed
