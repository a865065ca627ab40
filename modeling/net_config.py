"""NetConfig: what the configurations of all draft nets have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class NetConfig:
    """Sizes of a draft net. hidden_size, vocab_size: the target's, as embedding and LM head are.

    feature_layers: target decoder layers whose outputs are fused, ascending. draft_vocab: the target id of each draft
    id, None where they are the same. own_embedding, own_head: the net has such ends of its own. rope_frequencies: one
    for each pair of a head's numbers, None where they are powers of rope_theta; cos and sin are multiplied by
    rope_scale.
    """

    hidden_size: int
    vocab_size: int
    feature_layers: tuple[int, ...]
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    draft_vocab: tuple[int, ...] | None = None
    own_embedding: bool = False
    own_head: bool = False
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_frequencies: tuple[float, ...] | None = None
    rope_scale: float = 1.0

    @property
    def draft_vocab_size(self) -> int:
        """V': ids that may be drafted."""
        return self.vocab_size if self.draft_vocab is None else len(self.draft_vocab)


Config = TypeVar("Config", bound=NetConfig)
