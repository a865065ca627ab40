"""The layout of DFlash and DSpark checkpoints in speculators format (github.com/vllm-project/speculators)."""

from __future__ import annotations

from typing import Any

from modeling.block_net import BlockNetConfig
from modeling.checkpoint_files import Checkpoint
from modeling.layouts.block_sources import block_sources
from modeling.layouts.deepspec import read_heads
from modeling.layouts.layout import Layout, refuse, required
from modeling.layouts.speculators import algorithm, feature_layers, read_common, read_layers

_DSPARK = {"sample_from_anchor": True, "markov_rank": 256, "enable_confidence_head": True}


def _recognises(checkpoint: Checkpoint) -> bool:
    return algorithm(checkpoint) in ("dflash", "dspark")


def _configure(checkpoint: Checkpoint, target: Checkpoint | None) -> BlockNetConfig:
    given = (_DSPARK if algorithm(checkpoint) == "dspark" else {}) | checkpoint.config
    common, anchor = read_common(checkpoint, read_layers(checkpoint)), given.get("sample_from_anchor", False)
    heads: dict[str, Any] = read_heads(checkpoint, given) if algorithm(checkpoint) == "dspark" else {}
    if heads.get("markov") == "rnn" and not anchor:
        # Its state has gone through the anchor's slot, which predicts nothing, before the first prediction.
        raise refuse(checkpoint, "sample_from_anchor", anchor, "with markov_head_type rnn the anchor must predict here")
    reduced = heads.get("markov", "none") != "none" and common["draft_vocab"] is not None
    return BlockNetConfig(
        **common,
        **heads,
        feature_layers=feature_layers(checkpoint, "aux_hidden_state_layer_ids", target),
        block_size=given.get("block_size", 8),
        anchor_predicts=anchor,
        mask_token_id=required(checkpoint, given, "mask_token_id"),
        undrafted_rows=reduced,
    )


SPECULATORS_BLOCK = Layout(
    name="of speculators' block nets", recognises=_recognises, configure=_configure, sources=block_sources
)
