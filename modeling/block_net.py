"""BlockNet: the network of dflash and dspark, which guesses a block of tokens in one forward.

A block is the anchor and MASK inputs after it. Every layer lets it look at all the text before it through the target's
fused features, which enter as keys and values (arXiv 2602.06036). These do not depend on the block, so they are
computed once, when the features arrive. Embedding and LM head are the target's and belong to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from modeling.draft_attention import KeysValues, Rotary, attend, fold, rotary, rotate
from modeling.draft_vocab import DraftVocabNet
from modeling.fusion import BlockFusion
from modeling.markov import MARKOV, Confidence, MarkovKind, MarkovShape
from modeling.net_config import NetConfig
from modeling.norm import RMSNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockNetConfig(NetConfig):
    """What a BlockNet is, beyond the sizes of all draft nets.

    block_size: inputs of a block, the anchor included. anchor_predicts: the anchor's own output predicts the token
    after it, so there are block_size predictions (arXiv 2607.05147); else it predicts nothing and MASK k predicts the
    k-th token after the anchor. mask_token_id: a token whose embedding MASK is, None for a learned one.
    undrafted_rows: a Markov head tells tokens apart that precede and cannot be drafted.
    """

    block_size: int
    anchor_predicts: bool = True
    mask_token_id: int | None = None
    markov: MarkovKind = "none"
    markov_rank: int = 0
    confidence: bool = False
    undrafted_rows: bool = False

    @property
    def first_prediction(self) -> int:
        """The first place of a block whose output predicts."""
        return 0 if self.anchor_predicts else 1

    @property
    def num_predictions(self) -> int:
        """Tokens that one block predicts."""
        return self.block_size - self.first_prediction


class BlockNet(DraftVocabNet):
    """Prefixes of shapes, written `...`, are any batch. b: rows of a batch, q: block positions, n: context positions.

    Markov and confidence heads speak of draft ids, too. `markov` and `confidence` are None where the
    configuration has none.
    """

    def __init__(self, config: BlockNetConfig) -> None:
        super().__init__(config, undrafted_rows=config.undrafted_rows)
        self.config = config
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.fusion = block_fusion(config)
        self.mask_embedding = nn.Parameter(torch.randn(hidden) * 0.02) if config.mask_token_id is None else None
        self.layers = nn.ModuleList(BlockLayer(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(hidden, eps)
        self._register_heads(config)

    @property
    def dtype(self) -> torch.dtype:
        """What the net computes in."""
        return self.norm.weight.dtype

    def fuse(self, taps: torch.Tensor) -> torch.Tensor:
        """Features [..., d] of the tapped layers' outputs, joined: [..., m * d]."""
        fused: torch.Tensor = self.fusion((taps,))
        return fused

    def context(self, features: torch.Tensor, positions: torch.Tensor) -> tuple[KeysValues, ...]:
        """Each layer's keys and values, [..., kv_heads, n, head_dim], of features [..., n, d] at positions [..., n]."""
        turn = self._rotary(positions, features.dtype)
        return tuple(layer.keys_values(features, turn) for layer in self._layers())

    def inputs(self, anchors: torch.Tensor, embedding: torch.Tensor) -> torch.Tensor:
        """Blocks [..., block_size, d] after anchors [...] (target ids), with the target's embedding [V, d]."""
        mask = self.mask_embedding if self.mask_embedding is not None else embedding[self.config.mask_token_id]
        masks = mask.to(self.dtype).expand(*anchors.shape, self.config.block_size - 1, -1)
        return torch.cat((F.embedding(anchors, embedding).to(self.dtype).unsqueeze(-2), masks), dim=-2)

    def block(
        self, embeds: torch.Tensor, positions: torch.Tensor, contexts: Sequence[KeysValues], mask: torch.Tensor
    ) -> torch.Tensor:
        """States [b, q, d] after the final norm, of embeds [b, q, d] at positions [b, q].

        contexts: each layer's keys and values, [b, kv_heads, n, head_dim]. mask: bool [b, 1, q, n + q], True where a
        block position may look, first at the context, then at the q. A row may hold several blocks that share a
        context: the mask keeps them apart. Every position must see something.
        """
        turn = self._rotary(positions, embeds.dtype)
        folded = fold(mask, self.config.num_heads // self.config.num_kv_heads)
        hidden = embeds
        for layer, context in zip(self._layers(), contexts, strict=True):
            hidden = layer(hidden, turn, context, folded)
        normed: torch.Tensor = self.norm(hidden)
        return normed

    def confidence_logits(self, hidden: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        """Logits [...] of acceptance, from states [..., d] and the draft ids [...] of the tokens before."""
        assert self.confidence is not None, "this net has no confidence head"
        return self.confidence(hidden, None if self.markov is None else self.markov.previous(previous))  # type: ignore[no-any-return]

    def _register_heads(self, config: BlockNetConfig) -> None:
        outputs = config.draft_vocab_size
        shape = MarkovShape(
            hidden=config.hidden_size,
            rank=config.markov_rank,
            previous=_previous(config),
            outputs=outputs,
        )
        self.markov = None if config.markov == "none" else MARKOV[config.markov](shape)
        self.confidence = Confidence(config.hidden_size, self.markov) if config.confidence else None

    def _layers(self) -> Sequence[BlockLayer]:
        return self.layers  # type: ignore[return-value]

    def _rotary(self, positions: torch.Tensor, dtype: torch.dtype) -> Rotary:
        return rotary(self.config, positions, dtype)


def block_fusion(config: BlockNetConfig) -> BlockFusion:
    """The net's first part alone."""
    return BlockFusion(config.feature_layers, config.hidden_size, config.rms_norm_eps)


def _previous(config: BlockNetConfig) -> int:
    """Draft ids that may stand before a token: see DraftVocabNet.draft_ids."""
    if config.draft_vocab is None or config.undrafted_rows:
        return config.vocab_size
    return config.draft_vocab_size + 1


class BlockLayer(nn.Module):
    """One decoder layer, as Qwen3's, but the context's keys and values stand in front of the block's own."""

    def __init__(self, config: BlockNetConfig) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.head_dim, self.kv_heads = config.head_dim, config.num_kv_heads
        query, key = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.input_norm = RMSNorm(hidden, eps)
        self.q = nn.Linear(hidden, query, bias=False)
        self.kv = nn.Linear(hidden, 2 * key, bias=False)
        self.q_norm = RMSNorm(config.head_dim, eps)
        self.k_norm = RMSNorm(config.head_dim, eps)
        self.out = nn.Linear(query, hidden, bias=False)
        self.post_norm = RMSNorm(hidden, eps)
        self.gate_up = nn.Linear(hidden, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, hidden, bias=False)

    def keys_values(self, x: torch.Tensor, turn: Rotary) -> KeysValues:
        """[..., n, d] → keys, normed and rotated, and values, each [..., kv_heads, n, head_dim]."""
        keys, values = self.kv(x).unflatten(-1, (2, self.kv_heads, self.head_dim)).unbind(-3)
        return rotate(self.k_norm(keys).transpose(-3, -2), turn), values.transpose(-3, -2)

    def forward(self, x: torch.Tensor, turn: Rotary, context: KeysValues, mask: torch.Tensor) -> torch.Tensor:
        """[b, q, d] → [b, q, d]; see BlockNet.block. mask: [b, 1, group * q, n + q]."""
        x = x + self._attention(self.input_norm(x), turn, context, mask)
        gate, up = self.gate_up(self.post_norm(x)).chunk(2, dim=-1)
        mixed: torch.Tensor = self.down(F.silu(gate) * up)
        return x + mixed

    def _attention(self, x: torch.Tensor, turn: Rotary, context: KeysValues, mask: torch.Tensor) -> torch.Tensor:
        queries = self.q_norm(self.q(x).unflatten(-1, (-1, self.head_dim)))
        attended = attend(rotate(queries.transpose(1, 2), turn), context, self.keys_values(x, turn), mask)
        out: torch.Tensor = self.out(attended)
        return out
