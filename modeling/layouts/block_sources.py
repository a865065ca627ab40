"""Where a BlockNet's tensors are in published checkpoints: all three layouts of block nets use the same names."""

from __future__ import annotations

from functools import partial

import torch

from modeling.block_net import BlockNetConfig
from modeling.checkpoint_files import Checkpoint
from modeling.draft_vocab import draft_order
from modeling.layouts.decoder_layers import layer_sources
from modeling.layouts.draft_vocabulary import vocabulary_sources
from modeling.layouts.layout import Source, rows


def block_sources(checkpoint: Checkpoint, config: BlockNetConfig) -> dict[str, Source]:
    """By name of the net's tensors, those they are made of."""
    sources = {
        "fusion.linear.weight": rows("fc.weight"),
        "fusion.norm.weight": rows("hidden_norm.weight"),
        "norm.weight": rows("norm.weight"),
    }
    for layer in range(config.num_layers):
        name = f"layers.{layer}."
        sources[f"{name}input_norm.weight"] = rows(f"{name}input_layernorm.weight")
        sources |= layer_sources(name, name, qk_norm=True)
    return sources | vocabulary_sources(checkpoint, config.draft_vocab) | _head_sources(config)


def _head_sources(config: BlockNetConfig) -> dict[str, Source]:
    sources = {}
    if config.markov != "none":
        sources["markov.previous.weight"] = Source(("markov_head.markov_w1.weight",), partial(_by_draft_id, config))
        sources["markov.out.weight"] = rows("markov_head.markov_w2.weight")
    inner = {"gated": ("gate", "gate_proj"), "rnn": ("cell", "joint_proj")}.get(config.markov)
    for part in ("weight", "bias"):
        if inner is not None:
            sources[f"markov.{inner[0]}.{part}"] = rows(f"markov_head.{inner[1]}.{part}")
        if config.confidence:
            sources[f"confidence.score.{part}"] = rows(f"confidence_head.proj.{part}")
    return sources


def _by_draft_id(config: BlockNetConfig, table: torch.Tensor) -> torch.Tensor:
    """The table of what precedes has a row for each of the target's ids; ours are in the order of draft ids."""
    return table if config.draft_vocab is None else table[draft_order(config.vocab_size, config.draft_vocab)]
