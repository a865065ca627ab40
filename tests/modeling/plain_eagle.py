"""An EAGLE net's maths once more: one vector at a time, in float64, nothing batched, nothing shared with the net."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tests.modeling.plain_net import PlainNet, Vector


class PlainEagle(PlainNet):
    """Of an EagleNet."""

    def fuse(self, taps: Sequence[Vector]) -> Vector:
        if self.config.norm_taps:
            taps = [self.norm(tap, f"fusion.norms.{i}") for i, tap in enumerate(taps)]
        return self.weights["fusion.linear.weight"] @ np.concatenate(taps)

    def elements(
        self,
        embeds: Sequence[Vector],
        hidden: Sequence[Vector],
        positions: Sequence[int],
        sees: Callable[[int, int], bool] = lambda query, key: key <= query,
    ) -> list[Vector]:
        """What each element hands on. sees: whether element i may look at element j."""
        states = list(hidden)
        for layer in range(self.config.num_layers):
            name = f"layers.{layer}."
            seen = [self.norm(x, name + "input_norm") for x in states]
            if layer == 0:
                seen = [np.concatenate((self.norm(e, "embed_norm"), x)) for e, x in zip(embeds, seen, strict=True)]
            pairs = [self.key_value(x, position, name) for x, position in zip(seen, positions, strict=True)]
            after = []
            for i, x in enumerate(seen):
                visible = [pair for j, pair in enumerate(pairs) if sees(i, j)]
                after.append(states[i] + self.attention(x, positions[i], visible, name))
            states = [x + self.mlp(self.norm(x, name + "post_norm"), name) for x in after]
        return [self.norm(x, "norm") for x in states] if self.config.feed_normed else states

    def rollout(self, embeds: Sequence[Vector], features: Sequence[Vector], drafted: Sequence[Vector]) -> list[Vector]:
        """What the LM head reads, of a text with these elements and of each token drafted after it."""
        fed, positions = list(features), list(range(1, len(embeds) + 1))
        tokens = list(embeds)
        states = self.elements(tokens, fed, positions)
        read = [self.normed(states[-1])]
        for embed in drafted:
            tokens.append(embed)
            fed.append(states[-1])
            positions.append(positions[-1] + 1)
            states = self.elements(tokens, fed, positions)
            read.append(self.normed(states[-1]))
        return read

    def slot_inputs(self, feature: Vector, anchor: Vector) -> tuple[list[Vector], list[Vector]]:
        others = self.config.num_slots - 1
        if self.config.slots == "mask":
            return [self.weights["mask_embedding"]] * others, [self.weights["mask_feature"]] * others
        return [anchor] * others, list((self.weights["slot_features.weight"] @ feature).reshape(others, -1))

    def normed(self, state: Vector) -> Vector:
        return state if self.config.feed_normed else self.norm(state, "norm")

    def key_value(self, x: Vector, position: int, name: str) -> tuple[list[Vector], list[Vector]]:
        """Keys and values of each KV head."""
        both = self.heads(self.weights[name + "kv.weight"] @ x)
        keys, values = both[: self.config.num_kv_heads], both[self.config.num_kv_heads :]
        return [self.rotate(key, position) for key in keys], values

    def attention(
        self, x: Vector, position: int, seen: Sequence[tuple[list[Vector], list[Vector]]], name: str
    ) -> Vector:
        results = []
        group = self.config.num_heads // self.config.num_kv_heads
        for head, query in enumerate(self.heads(self.weights[name + "q.weight"] @ x)):
            rotated = self.rotate(query, position)
            scores = [rotated @ keys[head // group] / math.sqrt(self.config.head_dim) for keys, _ in seen]
            weights = [math.exp(score - max(scores)) for score in scores]
            mixed = sum(w * values[head // group] for w, (_, values) in zip(weights, seen, strict=True))
            results.append(mixed / sum(weights))
        return self.weights[name + "out.weight"] @ np.concatenate(results)
