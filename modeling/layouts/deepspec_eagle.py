"""The layout of DeepSpec's EAGLE-3 checkpoints (github.com/deepseek-ai/DeepSpec)."""

from __future__ import annotations

from modeling.checkpoint_files import Checkpoint
from modeling.eagle_net import EagleNetConfig
from modeling.layouts.decoder_layers import read_decoder, shape_of
from modeling.layouts.deepspec import target_layers
from modeling.layouts.draft_vocabulary import own_ends
from modeling.layouts.eagle_sources import eagle_sources
from modeling.layouts.layout import Layout, refuse


def _recognises(checkpoint: Checkpoint) -> bool:
    architectures = checkpoint.config.get("architectures") or [""]
    return architectures[0].endswith("Eagle3Model") and "target_layer_ids" in checkpoint.config


def _configure(checkpoint: Checkpoint, target: Checkpoint | None) -> EagleNetConfig:  # noqa: ARG001
    """Layer id i is the output of the target's layer i. Every layer would read the token, so there must be one."""
    given = checkpoint.config
    if given["architectures"] != ["Qwen3Eagle3Model"]:
        raise refuse(checkpoint, "architectures", given["architectures"], "known are nets of Qwen3Eagle3Model")
    shape = shape_of(read_decoder(checkpoint, given, default="qwen3"))
    if shape["num_layers"] != 1:
        why = "just the first layer reads the token here, but there every one does"
        raise refuse(checkpoint, "num_hidden_layers", shape["num_layers"], why)
    return EagleNetConfig(**shape, **own_ends(checkpoint), feature_layers=target_layers(checkpoint), qk_norm=True)


DEEPSPEC_EAGLE = Layout(
    name="of DeepSpec's EAGLE-3", recognises=_recognises, configure=_configure, sources=eagle_sources
)
