"""The layout of z-lab's DFlash checkpoints (github.com/z-lab/dflash)."""

from __future__ import annotations

from modeling.block_net import BlockNetConfig
from modeling.checkpoint_files import Checkpoint
from modeling.layouts.block_sources import block_sources
from modeling.layouts.decoder_layers import read_decoder, shape_of
from modeling.layouts.draft_vocabulary import own_ends
from modeling.layouts.layout import Layout, refuse

_KEYS = ("block_size", "mask_token_id", "target_layer_ids")


def _recognises(checkpoint: Checkpoint) -> bool:
    return "dflash_config" in checkpoint.config and "speculators_model_type" not in checkpoint.config


def _configure(checkpoint: Checkpoint, target: Checkpoint | None) -> BlockNetConfig:  # noqa: ARG001
    """Layer id i is the output of the target's layer i; the last one's would be taken after its final norm."""
    given, own = checkpoint.config, checkpoint.config["dflash_config"]
    for key in own:
        if key not in _KEYS:
            raise refuse(checkpoint, f"dflash_config.{key}", own[key], f"known there: {', '.join(_KEYS)}")
    architectures = given.get("architectures", ["DFlashDraftModel"])
    if architectures != ["DFlashDraftModel"]:
        raise refuse(checkpoint, "architectures", architectures, "known are nets of DFlashDraftModel")
    mask, block_size = own.get("mask_token_id"), own.get("block_size", given.get("block_size"))
    if mask is None or block_size is None:
        raise ValueError(
            f"config.json of {checkpoint.name!r} lacks mask_token_id or block_size, here and in dflash_config"
        )
    return BlockNetConfig(
        **shape_of(read_decoder(checkpoint, given, default="qwen3")),
        feature_layers=_layers(checkpoint),
        block_size=block_size,
        anchor_predicts=False,
        mask_token_id=mask,
        **own_ends(checkpoint),
    )


def _layers(checkpoint: Checkpoint) -> tuple[int, ...]:
    """Those named, else spread evenly from layer 1 to the third last, as many as the draft has layers."""
    given, ids = checkpoint.config, checkpoint.config["dflash_config"].get("target_layer_ids")
    depth = given.get("num_target_layers")
    if ids is None:
        if depth is None:
            raise ValueError(f"config.json of {checkpoint.name!r} has neither target_layer_ids nor num_target_layers")
        count = given["num_hidden_layers"]
        spread = [round(1 + i * (depth - 4) / (count - 1)) for i in range(count)] if count > 1 else [depth // 2]
        return tuple(spread)
    if depth is not None and depth - 1 in ids:
        raise refuse(checkpoint, "dflash_config.target_layer_ids", ids, f"layer {depth - 1} is the target's last")
    return tuple(ids)


Z_LAB = Layout(name="of z-lab's DFlash", recognises=_recognises, configure=_configure, sources=block_sources)
