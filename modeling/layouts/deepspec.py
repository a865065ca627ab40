"""The layout of DeepSpec's DSpark and DFlash checkpoints (github.com/deepseek-ai/DeepSpec)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modeling.block_net import BlockNetConfig
from modeling.checkpoint_files import Checkpoint
from modeling.layouts.block_sources import block_sources
from modeling.layouts.decoder_layers import read_decoder, shape_of
from modeling.layouts.draft_vocabulary import own_ends
from modeling.layouts.layout import Layout, refuse, required

_REQUIRED = ("target_layer_ids", "mask_token_id", "block_size", "markov_rank", "enable_confidence_head")


def _recognises(checkpoint: Checkpoint) -> bool:
    architectures = checkpoint.config.get("architectures") or [""]
    return "DSparkModel" in architectures[0]


def _configure(checkpoint: Checkpoint, target: Checkpoint | None) -> BlockNetConfig:  # noqa: ARG001
    """Layer id i is the output of the target's layer i. The anchor's slot predicts."""
    given = checkpoint.config
    if given["architectures"] != ["Qwen3DSparkModel"]:
        raise refuse(checkpoint, "architectures", given["architectures"], "known are nets of Qwen3DSparkModel")
    for key in _REQUIRED:
        required(checkpoint, given, key)
    return BlockNetConfig(
        **shape_of(read_decoder(checkpoint, given, default="qwen3")),
        **read_heads(checkpoint, given),
        feature_layers=target_layers(checkpoint),
        block_size=given["block_size"],
        anchor_predicts=True,
        mask_token_id=given["mask_token_id"],
        **own_ends(checkpoint),
    )


def read_heads(checkpoint: Checkpoint, given: Mapping[str, Any]) -> dict[str, Any]:
    """Markov and confidence heads; a rank of 0 means that there is no Markov head."""
    rank, confidence = given["markov_rank"], given["enable_confidence_head"]
    kind = given.get("markov_head_type", "vanilla") if rank else "none"
    if kind not in ("none", "vanilla", "gated", "rnn"):
        raise refuse(checkpoint, "markov_head_type", kind, "known are vanilla, gated and rnn")
    joint = given.get("confidence_head_with_markov", kind != "none")
    if confidence and joint != (kind != "none"):
        raise refuse(
            checkpoint,
            "confidence_head_with_markov",
            joint,
            f"a confidence head here reads the token before just where there is a Markov head (markov_rank {rank})",
        )
    return {"markov": kind, "markov_rank": rank, "confidence": confidence}


def target_layers(checkpoint: Checkpoint) -> tuple[int, ...]:
    """target_layer_ids; ValueError for the target's embedding and for its last layer, which is taken after a norm."""
    ids, depth = checkpoint.config["target_layer_ids"], checkpoint.config.get("num_target_layers")
    if -1 in ids:
        raise refuse(
            checkpoint, "target_layer_ids", ids, "-1 is the target's embedding, which no feature is made of here"
        )
    if depth is not None and depth - 1 in ids:
        why = f"layer {depth - 1} is the target's last, taken after its final norm"
        raise refuse(checkpoint, "target_layer_ids", ids, why)
    return tuple(ids)


DEEPSPEC = Layout(name="of DeepSpec", recognises=_recognises, configure=_configure, sources=block_sources)
