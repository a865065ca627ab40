"""EAGLE nets as SafeAILab, DeepSpec and speculators publish them, tiny and random, and what they draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness.tiny import VOCAB_SIZE
from tests.modeling.published import (
    HIDDEN,
    LAYER,
    THETA,
    PlainLayers,
    Shapes,
    Vector,
    layer_shapes,
    random_tensors,
    reduced,
    write,
)

MASK, SLOTS, TAPS = 250, 4, 3
IDS = tuple(range(3, 200, 4))

SAFEAILAB: dict[str, Any] = LAYER | {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "rope_theta": THETA,
    "draft_vocab_size": len(IDS),
    "tie_word_embeddings": False,
}
DEEPSPEC_EAGLE: dict[str, Any] = LAYER | {
    "architectures": ["Qwen3Eagle3Model"],
    "model_type": "qwen3",
    "num_hidden_layers": 1,
    "num_target_layers": 8,
    "rope_parameters": {"rope_type": "default", "rope_theta": THETA},
    "target_layer_ids": [1, 3, 4],
    "ttt_length": 7,
}
SPECULATORS_EAGLE: dict[str, Any] = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "speculators_config": {"algorithm": "eagle3", "proposal_methods": [{"speculative_tokens": SLOTS}]},
    "transformer_layer_config": LAYER
    | {"model_type": "llama", "num_hidden_layers": 1, "rope_parameters": {"rope_theta": THETA}},
    "draft_vocab_size": len(IDS),
    "eagle_aux_hidden_state_layer_ids": [2, 4, 5],
    "norm_before_residual": True,
}
PEAGLE: dict[str, Any] = SPECULATORS_EAGLE | {
    "architectures": ["PEagleSpeculator"],
    "speculators_model_type": "peagle",
    "mask_token_id": MASK,
    "norm_before_residual": False,
}


def with_layers(config: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A speculators config with other decoder layers."""
    return {**config, "transformer_layer_config": config["transformer_layer_config"] | changes}


def eagle_tensors(config: Mapping[str, Any], *, seed: int = 0) -> dict[str, torch.Tensor]:
    """All that a checkpoint of that config.json holds."""
    layers, ours = config.get("transformer_layer_config", config), "speculators_model_type" in config
    qk_norm, outputs = layers["model_type"] == "qwen3", config.get("draft_vocab_size", VOCAB_SIZE)
    first = "layers.0." if ours or "target_layer_ids" in config else "midlayer."
    shapes: Shapes = {"fc.weight": (HIDDEN, TAPS * HIDDEN), "norm.weight": (HIDDEN,)}
    shapes |= layer_shapes(first, width=2 * HIDDEN, qk_norm=qk_norm) | {f"{first}hidden_norm.weight": (HIDDEN,)}
    for layer in range(1, layers["num_hidden_layers"]):
        shapes |= layer_shapes(f"layers.{layer}.", qk_norm=qk_norm)
    shapes["lm_head.weight"] = (outputs, HIDDEN)
    if first == "layers.0.":
        shapes["embed_tokens.weight"] = (VOCAB_SIZE, HIDDEN)
    if config.get("norm_before_fc"):
        shapes["input_norm.weight"] = (TAPS * HIDDEN,)
    if config.get("fc_norm"):
        shapes |= {f"fc_norm.{i}.weight": (HIDDEN,) for i in range(TAPS)}
    if "mask_token_id" in config:
        shapes["mask_hidden"] = (1, 1, TAPS * HIDDEN)
    return random_tensors(shapes, seed=seed) | (reduced(IDS) if outputs != VOCAB_SIZE else {})


def publish_eagle(folder: Path, config: Mapping[str, Any], **changes: Any) -> tuple[Path, dict[str, torch.Tensor]]:
    config = {**config, **changes}
    tensors = eagle_tensors(config)
    return write(folder, config, tensors), tensors


class PlainPublishedEagle(PlainLayers):
    """embedding: the target's, whose place that of the checkpoint takes. config: the published one."""

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], embedding: torch.Tensor) -> None:
        super().__init__({"embed_tokens.weight": embedding} | dict(tensors))
        self.config = config
        self.first = "midlayer." if "midlayer.hidden_norm.weight" in tensors else "layers.0."

    def feature(self, taps: Sequence[Vector]) -> Vector:
        joined = np.concatenate(taps)
        if self.config.get("norm_before_fc"):
            joined = self.norm(joined, "input_norm")
        if self.config.get("fc_norm"):
            joined = np.concatenate([self.norm(tap, f"fc_norm.{i}") for i, tap in enumerate(taps)])
        out: Vector = self.weights["fc.weight"] @ joined
        return out

    def states(
        self, tokens: Sequence[int], hidden: Sequence[Vector], positions: Sequence[int]
    ) -> tuple[list[Vector], list[Vector]]:
        """What each element hands on, and what the LM head reads; an element sees those up to itself."""
        embeds = [self.norm(self.weights["embed_tokens.weight"][t], f"{self.first}input_layernorm") for t in tokens]
        normed = [self.norm(h, f"{self.first}hidden_norm") for h in hidden]
        inputs = [np.concatenate(pair) for pair in zip(embeds, normed, strict=True)]
        residual = normed if self.config.get("norm_before_residual") else list(hidden)
        states = self.after(residual, inputs, positions, self.first, _causal)
        layer = 1
        while f"layers.{layer}.input_layernorm.weight" in self.weights:
            name = f"layers.{layer}."
            inputs = [self.norm(state, f"{name}input_layernorm") for state in states]
            states = self.after(states, inputs, positions, name, _causal)
            layer += 1
        read = [self.norm(state, "norm") for state in states]
        return (read if self.config.get("norm_output") else states), read

    def drafted(self, text: Sequence[int], features: Sequence[Vector], steps: int) -> list[int]:
        """eagle3: the likeliest tokens after the text, one by one. features: of all its tokens but the last."""
        tokens, hidden, drafts = list(text[1:]), list(features), []
        for _ in range(steps):
            handed, read = self.states(tokens, hidden, list(range(len(tokens))))
            drafts.append(self.best(read[-1]))
            tokens.append(drafts[-1])
            hidden.append(handed[-1])
        return drafts

    def drafted_at_once(self, text: Sequence[int], features: Sequence[Vector]) -> list[int]:
        """p_eagle: a token from the last element and one from each MASK behind it."""
        others = SLOTS - 1
        mask = self.feature(np.split(self.weights["mask_hidden"].ravel(), TAPS))
        tokens, hidden = [*text[1:], *[MASK] * others], [*features, *[mask] * others]
        _, read = self.states(tokens, hidden, list(range(len(tokens))))
        return [self.best(state) for state in read[-SLOTS:]]

    def best(self, read: Vector) -> int:
        """Target id; d2t holds what a draft id lacks to it."""
        draft = int((self.weights["lm_head.weight"] @ read).argmax())
        return draft + int(self.weights["d2t"][draft]) if "d2t" in self.weights else draft


def _causal(query: int, key: int) -> bool:
    return key <= query
