"""Block nets as z-lab, DeepSpec and speculators publish them, tiny and random, and what they draft."""

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
    sigmoid,
    write,
)

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LAYERS, BLOCK, RANK, MASK = 2, 5, 6, 250
IDS = tuple(range(3, 200, 4))

Z_LAB: dict[str, Any] = LAYER | {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "num_hidden_layers": LAYERS,
    "num_target_layers": 8,
    "rope_theta": THETA,
    "rope_scaling": None,
    "block_size": BLOCK,
    "dflash_config": {"mask_token_id": MASK, "target_layer_ids": [1, 4]},
}
DEEPSPEC: dict[str, Any] = LAYER | {
    "architectures": ["Qwen3DSparkModel"],
    "model_type": "qwen3",
    "num_hidden_layers": LAYERS,
    "num_target_layers": 8,
    "layer_types": ["full_attention"] * LAYERS,
    "rope_parameters": {"rope_type": "default", "rope_theta": THETA},
    "block_size": BLOCK,
    "mask_token_id": MASK,
    "target_layer_ids": [1, 4],
    "num_anchors": 512,
    "tie_word_embeddings": False,
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
    "markov_rank": RANK,
    "markov_head_type": "vanilla",
}
SPECULATORS: dict[str, Any] = {
    "architectures": ["DFlashSpeculator"],
    "speculators_model_type": "dflash",
    "speculators_config": {"algorithm": "dflash"},
    "transformer_layer_config": LAYER
    | {"model_type": "qwen3", "num_hidden_layers": LAYERS, "rope_parameters": {"rope_theta": THETA}},
    "draft_vocab_size": len(IDS),
    "block_size": BLOCK,
    "aux_hidden_state_layer_ids": [2, 5],
    "mask_token_id": MASK,
    "sample_from_anchor": False,
}
SPECULATORS_DSPARK: dict[str, Any] = SPECULATORS | {
    "architectures": ["DSparkSpeculator"],
    "speculators_model_type": "dspark",
    "sample_from_anchor": True,
    "markov_rank": RANK,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}


def block_tensors(config: Mapping[str, Any], *, seed: int = 0) -> dict[str, torch.Tensor]:
    """All that a checkpoint of that config.json holds."""
    outputs = config.get("draft_vocab_size", VOCAB_SIZE)
    shapes: Shapes = {
        "fc.weight": (HIDDEN, 2 * HIDDEN),
        "hidden_norm.weight": (HIDDEN,),
        "norm.weight": (HIDDEN,),
    }
    for layer in range(LAYERS):
        shapes |= layer_shapes(f"layers.{layer}.")
    if "dflash_config" not in config:
        shapes |= {"embed_tokens.weight": (VOCAB_SIZE, HIDDEN), "lm_head.weight": (outputs, HIDDEN)}
    rank = config.get("markov_rank", 0)
    if rank:
        shapes |= {"markov_head.markov_w1.weight": (VOCAB_SIZE, rank), "markov_head.markov_w2.weight": (outputs, rank)}
        inner = {"gated": ("gate_proj", rank, HIDDEN + rank), "rnn": ("joint_proj", 3 * rank, 2 * rank + HIDDEN)}
        if config["markov_head_type"] in inner:
            name, rows, columns = inner[config["markov_head_type"]]
            shapes |= {f"markov_head.{name}.weight": (rows, columns), f"markov_head.{name}.bias": (rows,)}
    if config.get("enable_confidence_head"):
        shapes |= {"confidence_head.proj.weight": (1, HIDDEN + rank), "confidence_head.proj.bias": (1,)}
    return random_tensors(shapes, seed=seed) | (reduced(IDS) if outputs != VOCAB_SIZE else {})


def publish_block(folder: Path, config: Mapping[str, Any], **changes: Any) -> tuple[Path, dict[str, torch.Tensor]]:
    config = {**config, **changes}
    tensors = block_tensors(config)
    return write(folder, config, tensors), tensors


class PlainPublishedBlock(PlainLayers):
    """embedding, head: the target's, of which those that a checkpoint brings along take the place."""

    def __init__(
        self,
        tensors: Mapping[str, torch.Tensor],
        embedding: torch.Tensor,
        head: torch.Tensor,
        rope: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__({"embed_tokens.weight": embedding, "lm_head.weight": head} | dict(tensors), rope)

    def feature(self, taps: Sequence[Vector]) -> Vector:
        return self.norm(self.weights["fc.weight"] @ np.concatenate(taps), "hidden_norm")

    def states(self, anchor: int, features: Sequence[Vector]) -> list[Vector]:
        """Of a block after the text whose tokens but the anchor have these features."""
        embedding = self.weights["embed_tokens.weight"]
        hidden = [embedding[anchor]] + [embedding[MASK]] * (BLOCK - 1)
        positions = list(range(len(features), len(features) + BLOCK))
        for layer in range(LAYERS):
            name = f"layers.{layer}."
            before = [self.key_value(feature, i, name) for i, feature in enumerate(features)]
            normed = [self.norm(x, f"{name}input_layernorm") for x in hidden]
            hidden = self.after(hidden, normed, positions, name, lambda _i, _j: True, before)
        return [self.norm(x, "norm") for x in hidden]

    def drafted(self, anchor: int, features: Sequence[Vector], *, first: int) -> tuple[list[int], list[float]]:
        """The likeliest tokens, and the confidence logit of each (0 without that head). first: what predicts first."""
        ids = self.weights["d2t"] + np.arange(len(self.weights["d2t"])) if "d2t" in self.weights else None
        rank = self.weights.get("markov_head.markov_w1.weight", np.zeros((0, 0))).shape[1]
        tokens, confidences, state, before = [], [], np.zeros(rank), anchor
        for h in self.states(anchor, features)[first:]:
            logits = self.weights["lm_head.weight"] @ h
            if rank:
                bias, state = self._bias(h, before, state)
                logits = logits + bias
            confidences.append(self._confidence(h, before))
            best = int(logits.argmax())
            before = best if ids is None else int(ids[best])
            tokens.append(before)
        return tokens, confidences

    def _bias(self, h: Vector, before: int, state: Vector) -> tuple[Vector, Vector]:
        name, weights = "markov_head.", self.weights
        mixed = e = weights[f"{name}markov_w1.weight"][before]
        if f"{name}gate_proj.weight" in weights:
            gate = weights[f"{name}gate_proj.weight"] @ np.concatenate((h, e)) + weights[f"{name}gate_proj.bias"]
            mixed = sigmoid(gate) * e
        if f"{name}joint_proj.weight" in weights:
            joint = weights[f"{name}joint_proj.weight"] @ np.concatenate((state, e, h))
            gate, candidate, out = np.split(joint + weights[f"{name}joint_proj.bias"], 3)
            state = sigmoid(gate) * state + (1 - sigmoid(gate)) * np.tanh(candidate)
            mixed = np.tanh(out)
        return weights[f"{name}markov_w2.weight"] @ mixed, state

    def _confidence(self, h: Vector, before: int) -> float:
        if "confidence_head.proj.weight" not in self.weights:
            return 0.0
        (weight,), (bias,) = self.weights["confidence_head.proj.weight"], self.weights["confidence_head.proj.bias"]
        seen = [h]
        if "markov_head.markov_w1.weight" in self.weights:
            seen.append(self.weights["markov_head.markov_w1.weight"][before])
        return float(weight @ np.concatenate(seen) + bias)
