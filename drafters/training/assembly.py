"""Assembly: the untrained net that suits a target, with the ends that it shares of it."""

from __future__ import annotations

from typing import Any

import torch

from drafters.training.answers import Split, frequent_tokens
from drafters.training.block_trainee import BlockTrainee
from drafters.training.features import feature_layers
from drafters.training.lm_trainee import make_lm_trainee
from drafters.training.recipe import Recipe
from drafters.training.trainee import Trainee
from modeling.block_net import BlockNet, BlockNetConfig
from modeling.checkpoint_files import Checkpoint
from modeling.target import Target
from modeling.target_ends import read_ends


def make_trainee(recipe: Recipe, target: Target, split: Split, *, revision: str | None) -> Trainee:
    """A trainee with random weights, the same for the same seed, on the target's device."""
    check_tokens(split, target.vocab_size)
    ends = read_ends(Checkpoint(target.name, revision))
    torch.manual_seed(recipe.seed)
    if recipe.method == "draft_model":
        return make_lm_trainee(recipe, target, ends)
    net = BlockNet(block_config(recipe, target.config, split)).to(target.runner.device)
    return BlockTrainee(net, ends, bf16=recipe.precision == "bf16")


def block_config(recipe: Recipe, target: Any, split: Split) -> BlockNetConfig:
    """Layers as the target's own (`target` is its transformers configuration), in the recipe's number."""
    heads = target.num_attention_heads
    draft_vocab = frequent_tokens(split.train, recipe.draft_vocab) if recipe.draft_vocab else None
    rope = getattr(target, "rope_parameters", None) or {}
    return BlockNetConfig(
        hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        feature_layers=feature_layers(target.num_hidden_layers, recipe.taps),
        intermediate_size=target.intermediate_size,
        num_layers=recipe.layers,
        num_heads=heads,
        num_kv_heads=getattr(target, "num_key_value_heads", None) or heads,
        head_dim=getattr(target, "head_dim", None) or target.hidden_size // heads,
        block_size=recipe.block_size,
        draft_vocab=draft_vocab,
        markov=recipe.markov,
        markov_rank=0 if recipe.markov == "none" else recipe.markov_rank,
        confidence=recipe.method == "dspark",
        rms_norm_eps=getattr(target, "rms_norm_eps", 1e-6),
        rope_theta=float(rope.get("rope_theta", 10000.0)),
    )


def check_tokens(split: Split, vocab_size: int) -> None:
    """ValueError where the answers are of a model with a larger vocabulary."""
    highest = max(max(each.tokens) for each in (*split.train, *split.held_out))
    if highest >= vocab_size:
        raise ValueError(
            f"the answers have the token id {highest}, but the target's vocabulary ends at {vocab_size - 1}; "
            "train on answers of this target"
        )
