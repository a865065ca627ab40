"""The layout of SafeAILab's EAGLE-3 checkpoints (github.com/SafeAILab/EAGLE), which SpecForge writes as well."""

from __future__ import annotations

from modeling.checkpoint_files import Checkpoint
from modeling.eagle_net import EagleNetConfig
from modeling.layouts.decoder_layers import read_decoder
from modeling.layouts.eagle_sources import eagle_sources
from modeling.layouts.layout import Layout, Source, refuse
from modeling.layouts.speculators import default_ids, read_common

_FIRST = "midlayer."
# Two servers read these ids differently, and which of them a checkpoint was made for cannot be seen.
_AMBIGUOUS = ("eagle_aux_hidden_state_layer_ids", "eagle_config")
_NORMS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")


def _recognises(checkpoint: Checkpoint) -> bool:
    return "model_type" in checkpoint.config and any(name.startswith(_FIRST) for name in checkpoint.names())


def _configure(checkpoint: Checkpoint, target: Checkpoint | None) -> EagleNetConfig:
    """It reads the states before the target's layers 2, L // 2 and L - 3; config.json does not say so."""
    given = checkpoint.config
    layers = read_decoder(checkpoint, given, default="llama")
    for key in (*_AMBIGUOUS, *_NORMS):
        if given.get(key):
            raise refuse(checkpoint, key, given[key], f"in the layout {SAFEAILAB.name} it has no agreed meaning")
    if layers.num_hidden_layers != 1:
        raise refuse(checkpoint, "num_hidden_layers", layers.num_hidden_layers, "such a net has one layer, midlayer")
    return EagleNetConfig(
        **read_common(checkpoint, layers, draft_vocab_size=layers.vocab_size),
        feature_layers=tuple(i - 1 for i in default_ids(checkpoint, target)),
    )


def _sources(checkpoint: Checkpoint, config: EagleNetConfig) -> dict[str, Source]:
    return eagle_sources(checkpoint, config, first=_FIRST)


SAFEAILAB = Layout(name="of SafeAILab's EAGLE-3", recognises=_recognises, configure=_configure, sources=_sources)
