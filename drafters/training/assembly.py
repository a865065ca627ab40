"""Assembly: the untrained net that suits a target, with the ends that it shares of it."""

from __future__ import annotations

from typing import Any

import torch

from drafters.training.answers import Split, frequent_tokens
from drafters.training.block_trainee import BlockTrainee
from drafters.training.eagle_trainee import Eagle3Trainee, EagleTrainee
from drafters.training.features import feature_layers
from drafters.training.lm_trainee import make_lm_trainee
from drafters.training.parallel_trainee import ParallelTrainee
from drafters.training.recipe import BLOCK_METHODS, Recipe
from drafters.training.trainee import Trainee
from modeling.block_net import BlockNet, BlockNetConfig
from modeling.checkpoint_files import Checkpoint
from modeling.eagle_net import EagleNet, EagleNetConfig
from modeling.target import Target
from modeling.target_ends import TargetEnds, read_ends


def make_trainee(recipe: Recipe, target: Target, split: Split, *, revision: str | None) -> Trainee:
    """A trainee with random weights, the same for the same seed, on the target's device."""
    _check_tokens(split, target.vocab_size)
    ends = read_ends(Checkpoint(target.name, revision))
    torch.manual_seed(recipe.seed)
    if recipe.method == "draft_model":
        return make_lm_trainee(recipe, target, ends)
    if recipe.method in BLOCK_METHODS:
        net = BlockNet(block_config(recipe, target.config, split)).to(target.runner.device)
        return BlockTrainee(net, ends, bf16=recipe.precision == "bf16")
    return _eagle_trainee(recipe, target, split, ends)


def block_config(recipe: Recipe, target: Any, split: Split) -> BlockNetConfig:
    """Layers as the target's own (`target` is its transformers configuration), in the recipe's number."""
    return BlockNetConfig(
        **_sizes(recipe, target, split),
        block_size=recipe.block_size,
        markov=recipe.markov,
        markov_rank=0 if recipe.markov == "none" else recipe.markov_rank,
        confidence=recipe.method == "dspark",
    )


def eagle_config(recipe: Recipe, target: Any, split: Split) -> EagleNetConfig:
    """As block_config. A net of one slot is the same for both methods."""
    one_by_one = recipe.method == "eagle3" or recipe.block_size == 1
    return EagleNetConfig(
        **_sizes(recipe, target, split),
        slots="none" if one_by_one else recipe.slots,
        num_slots=1 if one_by_one else recipe.block_size,
        norm_taps=True,
        feed_normed=True,
    )


def _eagle_trainee(recipe: Recipe, target: Target, split: Split, ends: TargetEnds) -> EagleTrainee:
    net = EagleNet(eagle_config(recipe, target.config, split)).to(target.runner.device)
    bf16 = recipe.precision == "bf16"
    if net.config.slots == "none":
        return Eagle3Trainee(net, ends, predictions=recipe.block_size, bf16=bf16)
    return ParallelTrainee(net, ends, bf16=bf16)


def _sizes(recipe: Recipe, target: Any, split: Split) -> dict[str, Any]:
    """What the configurations of all nets that read features have in common."""
    heads = target.num_attention_heads
    rope = getattr(target, "rope_parameters", None) or {}
    return {
        "hidden_size": target.hidden_size,
        "vocab_size": target.vocab_size,
        "feature_layers": feature_layers(target.num_hidden_layers, recipe.taps),
        "intermediate_size": target.intermediate_size,
        "num_layers": recipe.layers,
        "num_heads": heads,
        "num_kv_heads": getattr(target, "num_key_value_heads", None) or heads,
        "head_dim": getattr(target, "head_dim", None) or target.hidden_size // heads,
        "draft_vocab": frequent_tokens(split.train, recipe.draft_vocab) if recipe.draft_vocab else None,
        "rms_norm_eps": getattr(target, "rms_norm_eps", 1e-6),
        "rope_theta": float(rope.get("rope_theta", 10000.0)),
    }


def _check_tokens(split: Split, vocab_size: int) -> None:
    """ValueError where the answers are of a model with a larger vocabulary."""
    highest = max(max(each.tokens) for each in (*split.train, *split.held_out))
    if highest >= vocab_size:
        raise ValueError(
            f"the answers have the token id {highest}, but the target's vocabulary ends at {vocab_size - 1}; "
            "train on answers of this target"
        )
