"""What all checkpoints in speculators format have in common (github.com/vllm-project/speculators)."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig

from modeling.checkpoint_files import Checkpoint
from modeling.layouts.decoder_layers import read_decoder, shape_of
from modeling.layouts.draft_vocabulary import own_ends, read_draft_vocab
from modeling.layouts.layout import refuse

DRAFT_VOCAB_SIZE = 32000  # where a config.json in speculators format does not say


def algorithm(checkpoint: Checkpoint) -> str | None:
    """dflash, dspark, eagle3, peagle, …; None for checkpoints in other layouts."""
    return checkpoint.config.get("speculators_model_type")


def read_layers(checkpoint: Checkpoint) -> PretrainedConfig:
    """The configuration of the draft's decoder layers."""
    return read_decoder(checkpoint, checkpoint.config.get("transformer_layer_config", {}), default="qwen3")


def read_common(
    checkpoint: Checkpoint, layers: PretrainedConfig, *, draft_vocab_size: int = DRAFT_VOCAB_SIZE
) -> dict[str, Any]:
    """Sizes, draft vocabulary and own ends, as a NetConfig says them.

    draft_vocab_size: that of a checkpoint whose config.json does not say.
    """
    shape, theirs = shape_of(layers), checkpoint.config.get("target_hidden_size")
    if theirs not in (None, shape["hidden_size"]):
        why = f"the draft's hidden_size is {shape['hidden_size']}, and here it must be the target's"
        raise refuse(checkpoint, "target_hidden_size", theirs, why)
    draft_size = checkpoint.config.get("draft_vocab_size", draft_vocab_size)
    vocabulary = read_draft_vocab(checkpoint, shape["vocab_size"], draft_size)
    return shape | own_ends(checkpoint) | {"draft_vocab": vocabulary}


def feature_layers(checkpoint: Checkpoint, key: str, target: Checkpoint | None) -> tuple[int, ...]:
    """Id i is the state before the target's layer i, so the output of layer i - 1; without ids, three by default."""
    ids = checkpoint.config.get(key)
    if ids is None:
        ids = default_ids(checkpoint, target)
    if 0 in ids:
        raise refuse(checkpoint, key, ids, "0 is the target's embedding, which no feature is made of here")
    return tuple(i - 1 for i in ids)


def default_ids(checkpoint: Checkpoint, target: Checkpoint | None) -> list[int]:
    """What EAGLE-3 reads of a target of L layers: the states before layers 2, L // 2 and L - 3."""
    depth = None if target is None else target.config.get("num_hidden_layers")
    if depth is None:
        raise ValueError(
            f"the layers that {checkpoint.name!r} reads follow from its target's num_hidden_layers; give it"
        )
    return [2, depth // 2, depth - 3]
