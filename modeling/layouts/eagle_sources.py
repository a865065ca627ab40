"""Where an EagleNet's tensors are in published checkpoints: all three layouts use the same names inside a layer."""

from __future__ import annotations

from modeling.checkpoint_files import Checkpoint
from modeling.eagle_net import EagleNetConfig
from modeling.layouts.decoder_layers import layer_sources
from modeling.layouts.draft_vocabulary import vocabulary_sources
from modeling.layouts.layout import Source, rows


def eagle_sources(checkpoint: Checkpoint, config: EagleNetConfig, *, first: str = "layers.0.") -> dict[str, Source]:
    """By name of the net's tensors, those they are made of. first: what the first layer is called."""
    sources = {
        "fusion.linear.weight": rows("fc.weight"),
        "embed_norm.weight": rows(f"{first}input_layernorm.weight"),
        "layers.0.input_norm.weight": rows(f"{first}hidden_norm.weight"),
        "norm.weight": rows("norm.weight"),
    }
    if config.norm_joined:
        sources["fusion.joined_norm.weight"] = rows("input_norm.weight")
    if config.norm_taps:
        sources |= {f"fusion.norms.{i}.weight": rows(f"fc_norm.{i}.weight") for i in range(len(config.feature_layers))}
    for layer in range(config.num_layers):
        ours, theirs = f"layers.{layer}.", f"layers.{layer}." if layer else first
        if layer:
            sources[f"{ours}input_norm.weight"] = rows(f"{theirs}input_layernorm.weight")
        sources |= layer_sources(ours, theirs, qk_norm=config.qk_norm)
    return sources | vocabulary_sources(checkpoint, config.draft_vocab)
