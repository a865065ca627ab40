"""A block net's maths once more: one vector at a time, in float64, nothing batched, nothing shared with the net."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tests.modeling.plain_net import PlainNet, Vector, sigmoid


class PlainBlock(PlainNet):
    """Of a BlockNet."""

    def fuse(self, taps: Sequence[Vector]) -> Vector:
        return self.norm(self.weights["fusion.linear.weight"] @ np.concatenate(taps), "fusion.norm")

    def block(
        self,
        embeds: Sequence[Vector],
        positions: Sequence[int],
        context: Sequence[tuple[int, Vector]],
        sees: Callable[[int, int], bool] = lambda query, key: True,
    ) -> list[Vector]:
        """context: (position, feature). sees: whether block position i may look at block position j."""
        hidden = list(embeds)
        for layer in range(self.config.num_layers):
            name = f"layers.{layer}."
            normed = [self.norm(x, name + "input_norm") for x in hidden]
            before = [self.key_value(feature, position, name) for position, feature in context]
            own = [self.key_value(x, position, name) for x, position in zip(normed, positions, strict=True)]
            after = []
            for i, x in enumerate(normed):
                seen = before + [pair for j, pair in enumerate(own) if sees(i, j)]
                after.append(hidden[i] + self.attention(x, positions[i], seen, name))
            hidden = [x + self.mlp(self.norm(x, name + "post_norm"), name) for x in after]
        return [self.norm(x, "norm") for x in hidden]

    def key_value(self, x: Vector, position: int, name: str) -> tuple[list[Vector], list[Vector]]:
        """Keys and values of each KV head."""
        both = self.heads(self.weights[name + "kv.weight"] @ x)
        keys, values = both[: self.config.num_kv_heads], both[self.config.num_kv_heads :]
        return [self.rotate(self.norm(key, name + "k_norm"), position) for key in keys], values

    def attention(
        self, x: Vector, position: int, seen: Sequence[tuple[list[Vector], list[Vector]]], name: str
    ) -> Vector:
        results = []
        group = self.config.num_heads // self.config.num_kv_heads
        for head, query in enumerate(self.heads(self.weights[name + "q.weight"] @ x)):
            rotated = self.rotate(self.norm(query, name + "q_norm"), position)
            scores = [rotated @ keys[head // group] / math.sqrt(self.config.head_dim) for keys, _ in seen]
            weights = [math.exp(score - max(scores)) for score in scores]
            mixed = sum(w * values[head // group] for w, (_, values) in zip(weights, seen, strict=True))
            results.append(mixed / sum(weights))
        return self.weights[name + "out.weight"] @ np.concatenate(results)

    def biases(self, previous: Sequence[int], hidden: Sequence[Vector]) -> list[Vector]:
        """Markov biases along one block."""
        weights, rank = self.weights, self.config.markov_rank
        state, biases = np.zeros(rank), []
        for token, h in zip(previous, hidden, strict=True):
            mixed = e = weights["markov.previous.weight"][token]
            if self.config.markov == "gated":
                gate = weights["markov.gate.weight"] @ np.concatenate((h, e)) + weights["markov.gate.bias"]
                mixed = sigmoid(gate) * e
            if self.config.markov == "rnn":
                cell = weights["markov.cell.weight"] @ np.concatenate((state, e, h)) + weights["markov.cell.bias"]
                gate, candidate, out = np.split(cell, 3)
                state = sigmoid(gate) * state + (1 - sigmoid(gate)) * np.tanh(candidate)
                mixed = np.tanh(out)
            biases.append(weights["markov.out.weight"] @ mixed)
        return biases

    def confidence(self, h: Vector, previous: int) -> float:
        """Logit."""
        seen = [h] if self.config.markov == "none" else [h, self.weights["markov.previous.weight"][previous]]
        (score,) = self.weights["confidence.score.weight"] @ np.concatenate(seen)
        return float(score + self.weights["confidence.score.bias"][0])
