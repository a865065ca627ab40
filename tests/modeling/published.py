"""Tiny random checkpoints in the layouts of others, and their layers' maths from the published tensors alone: one
vector at a time, in float64, nothing shared with the nets or with what loads them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from benchmarks.harness.tiny import VOCAB_SIZE
from modeling.checkpoint_files import WEIGHTS

Vector = NDArray[np.float64]
Shapes = dict[str, tuple[int, ...]]

HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM = 32, 48, 4, 2, 16
EPS, THETA = 1e-5, 5000.0
FREQUENCIES: Vector = THETA ** (-np.arange(HEAD_DIM // 2) * 2 / HEAD_DIM)

LAYER: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "rms_norm_eps": EPS,
    "vocab_size": VOCAB_SIZE,
}


def layer_shapes(name: str, *, width: int = HIDDEN, qk_norm: bool = True) -> Shapes:
    """width: what queries, keys and values are made of."""
    attention, norm = f"{name}self_attn.", (HIDDEN,)
    shapes: Shapes = {
        f"{attention}q_proj.weight": (HEADS * HEAD_DIM, width),
        f"{attention}k_proj.weight": (KV_HEADS * HEAD_DIM, width),
        f"{attention}v_proj.weight": (KV_HEADS * HEAD_DIM, width),
        f"{attention}o_proj.weight": (HIDDEN, HEADS * HEAD_DIM),
        f"{name}mlp.gate_proj.weight": (INNER, HIDDEN),
        f"{name}mlp.up_proj.weight": (INNER, HIDDEN),
        f"{name}mlp.down_proj.weight": (HIDDEN, INNER),
        f"{name}input_layernorm.weight": norm,
        f"{name}post_attention_layernorm.weight": norm,
    }
    if qk_norm:
        shapes |= {f"{attention}{part}_norm.weight": (HEAD_DIM,) for part in "qk"}
    return shapes


def random_tensors(shapes: Mapping[str, tuple[int, ...]], *, seed: int = 0) -> dict[str, torch.Tensor]:
    """Norms around 1; everything else far apart."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes.items():
        spread = torch.randn(shape, generator=generator)
        tensors[name] = 1 + spread / 4 if "norm" in name else spread / 2
    return tensors


def reduced(ids: Sequence[int]) -> dict[str, torch.Tensor]:
    """d2t as offsets and t2d as a mask, of a draft vocabulary."""
    mask = torch.zeros(VOCAB_SIZE, dtype=torch.bool)
    mask[list(ids)] = True
    return {"d2t": torch.tensor([token - i for i, token in enumerate(ids)]), "t2d": mask}


def write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / WEIGHTS)
    return folder


class PlainLayers:
    """Decoder layers by the names that all who publish share."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], rope: Mapping[str, Any] | None = None) -> None:
        self.frequencies = llama3_frequencies(rope) if rope else FREQUENCIES
        self.weights = {name: tensor.double().numpy() for name, tensor in tensors.items()}

    def norm(self, x: Vector, name: str) -> Vector:
        out: Vector = x / math.sqrt(float(np.mean(x * x)) + EPS) * self.weights[f"{name}.weight"]
        return out

    def key_value(self, x: Vector, position: int, name: str) -> tuple[list[Vector], list[Vector]]:
        """Keys and values of each KV head, of what the layer `name` attends to."""
        keys = self._heads(self.weights[f"{name}self_attn.k_proj.weight"] @ x)
        values = self._heads(self.weights[f"{name}self_attn.v_proj.weight"] @ x)
        return [self._turned(key, position, f"{name}self_attn.k_norm") for key in keys], values

    def attended(
        self, x: Vector, position: int, seen: Sequence[tuple[list[Vector], list[Vector]]], name: str
    ) -> Vector:
        results = []
        for head, query in enumerate(self._heads(self.weights[f"{name}self_attn.q_proj.weight"] @ x)):
            turned, kv = self._turned(query, position, f"{name}self_attn.q_norm"), head * KV_HEADS // HEADS
            scores = np.array([turned @ keys[kv] for keys, _ in seen]) / math.sqrt(HEAD_DIM)
            shares = np.exp(scores - scores.max())
            results.append(sum(s * values[kv] for s, (_, values) in zip(shares, seen, strict=True)) / shares.sum())
        out: Vector = self.weights[f"{name}self_attn.o_proj.weight"] @ np.concatenate(results)
        return out

    def mixed(self, x: Vector, name: str) -> Vector:
        """x after the layer's second half."""
        normed = self.norm(x, f"{name}post_attention_layernorm")
        gate, up = (self.weights[f"{name}mlp.{part}_proj.weight"] @ normed for part in ("gate", "up"))
        out: Vector = x + self.weights[f"{name}mlp.down_proj.weight"] @ (gate * sigmoid(gate) * up)
        return out

    def after(
        self,
        residual: Sequence[Vector],
        inputs: Sequence[Vector],
        positions: Sequence[int],
        name: str,
        sees: Callable[[int, int], bool],
        before: Sequence[tuple[list[Vector], list[Vector]]] = (),
    ) -> list[Vector]:
        """States after a layer whose attention reads `inputs`; all of them see what is `before`."""
        own = [self.key_value(x, position, name) for x, position in zip(inputs, positions, strict=True)]
        states = []
        for i, x in enumerate(inputs):
            seen = [*before, *(pair for j, pair in enumerate(own) if sees(i, j))]
            states.append(self.mixed(residual[i] + self.attended(x, positions[i], seen, name), name))
        return states

    def _turned(self, x: Vector, position: int, norm: str) -> Vector:
        if f"{norm}.weight" in self.weights:
            x = self.norm(x, norm)
        pairs = x[: HEAD_DIM // 2] + 1j * x[HEAD_DIM // 2 :]
        angles = position * self.frequencies
        turned = pairs * np.exp(1j * angles)
        return np.concatenate((turned.real, turned.imag))

    def _heads(self, x: Vector) -> list[Vector]:
        return list(x.reshape(-1, HEAD_DIM))


def llama3_frequencies(rope: Mapping[str, Any]) -> Vector:
    """Slow pairs are slowed down by `factor`, fast ones stay, and in between both are mixed, as Llama 3.1 has it."""
    turns = rope["original_max_position_embeddings"] * FREQUENCIES / (2 * math.pi)
    kept = (turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
    share = np.clip(kept, 0, 1)
    out: Vector = FREQUENCIES * (share + (1 - share) / rope["factor"])
    return out


def sigmoid(x: Vector) -> Vector:
    out: Vector = 1 / (1 + np.exp(-x))
    return out
