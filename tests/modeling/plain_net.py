"""What the plain maths of all draft nets share: one vector at a time, in float64, nothing shared with the nets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

Vector = NDArray[np.float64]


class PlainNet:
    """Reads a net's weights by name."""

    def __init__(self, net: nn.Module) -> None:
        self.config: Any = net.config
        self.weights = {name: tensor.double().numpy() for name, tensor in net.state_dict().items()}

    def mlp(self, x: Vector, name: str) -> Vector:
        gate, up = np.split(self.weights[name + "gate_up.weight"] @ x, 2)
        return self.weights[name + "down.weight"] @ (gate * sigmoid(gate) * up)

    def norm(self, x: Vector, name: str) -> Vector:
        scale = math.sqrt(sum(v * v for v in x) / len(x) + self.config.rms_norm_eps)
        return x / scale * self.weights[name + ".weight"]

    def heads(self, x: Vector) -> list[Vector]:
        return list(x.reshape(-1, self.config.head_dim))

    def rotate(self, x: Vector, position: int) -> Vector:
        half = len(x) // 2
        turned = np.empty_like(x)
        for i in range(half):
            angle = position * self.config.rope_theta ** (-2 * i / len(x))
            turned[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
            turned[i + half] = x[i + half] * math.cos(angle) + x[i] * math.sin(angle)
        return turned


def sigmoid(x: Vector) -> Vector:
    return 1 / (1 + np.exp(-x))
