"""EAGLE drafters over tiny checkpoints, and the drafts that follow from the net's maths, token by token in float64."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drafters.eagle_drafter import EagleDrafter
from drafters.registry import build_drafter, parse_config
from modeling.checkpoint_files import Checkpoint
from modeling.eagle_checkpoint import EAGLE_NETS
from modeling.noise import gumbel
from modeling.target_ends import read_ends
from protos.messages import DraftChunk
from protos.sampling_params import SamplingParams
from tests.drafters.featured import context, features_of
from tests.fakes.eagle_nets import random_net
from tests.modeling.plain_eagle import PlainEagle, Vector

Path_ = tuple[int, ...]


def save(folder: Path, **changes: Any) -> Path:
    """A random net for the tiny target, which has one layer."""
    EAGLE_NETS.save(random_net(**({"feature_layers": (0,)} | changes)), folder)
    return folder


def build(method: str, net: Path, target: Path, *, seqs: int = 4, **keys: Any) -> EagleDrafter:
    given = {"method": method, "model": str(net), "num_speculative_tokens": 5}
    drafter = build_drafter(parse_config(given | keys), context(target, max_num_seqs=seqs))
    assert isinstance(drafter, EagleDrafter)
    return drafter


class Formula:
    """What a net on disk says after a text."""

    def __init__(self, folder: Path, target: Path) -> None:
        checkpoint = Checkpoint(str(folder))
        net = EAGLE_NETS.load(checkpoint, EAGLE_NETS.read_config(checkpoint))
        ends = read_ends(Checkpoint(str(target)), torch.float32)
        self.plain = PlainEagle(net)
        self.ids = net.target_ids(torch.arange(net.config.draft_vocab_size))
        embedding = ends.embedding if net.embedding is None else net.embedding.detach()
        self._embedding = embedding.double().numpy()
        self._head = (ends.lm_head[self.ids] if net.lm_head is None else net.lm_head.weight).double().detach().numpy()

    def after(self, text: Sequence[int], drafted: Sequence[int] = ()) -> Vector:
        """eagle3: logits of the token after some drafted ones."""
        embeds, fed = self._elements(text)
        states = self.plain.elements(embeds, fed, range(1, len(embeds) + 1))
        for token in drafted:
            embeds.append(self._embedding[token])
            fed.append(states[-1])
            states = self.plain.elements(embeds, fed, range(1, len(embeds) + 1))
        return self._head @ self.plain.normed(states[-1])  # type: ignore[no-any-return]

    def slots(self, text: Sequence[int]) -> list[Vector]:
        """p_eagle: logits of all slots."""
        embeds, fed = self._elements(text)
        more_embeds, more_fed = self.plain.slot_inputs(fed[-1], embeds[-1])
        states = self.plain.elements(embeds + more_embeds, fed + more_fed, range(1, len(embeds) + len(more_fed) + 1))
        return [self._head @ self.plain.normed(state) for state in states[len(embeds) - 1 :]]

    def _elements(self, text: Sequence[int]) -> tuple[list[Vector], list[Vector]]:
        return [self._embedding[token] for token in text[1:]], list(features_of(text[:-1]).double().numpy())

    def totals(self, logits: Vector, position: int, params: SamplingParams) -> Vector:
        """What tokens are drawn by."""
        if params.greedy:
            return logits
        noise = gumbel(params.seed or 0, position, self.ids).double().numpy()
        return logits / params.temperature + noise  # type: ignore[no-any-return]

    def chain(
        self, text: Sequence[int], params: SamplingParams, steps: int, *, parallel: bool = False
    ) -> tuple[list[int], list[float]]:
        """Tokens and survival of a draft."""
        tokens: list[int] = []
        survival: list[float] = []
        reached, slots = 1.0, self.slots(text) if parallel else []
        for k in range(steps):
            logits = slots[k] if parallel else self.after(text, tokens)
            drawn = int(self.totals(logits, len(text) + k, params).argmax())
            reached *= _softmax(logits / (params.temperature or 1.0))[drawn]
            tokens.append(int(self.ids[drawn]))
            survival.append(reached)
        return tokens, survival

    def tree(
        self, text: Sequence[int], params: SamplingParams, *, topk: int, depth: int, nodes: int
    ) -> dict[Path_, float]:
        """Paths of the nodes of a tree, and the survival of each: by EAGLE-2's words, node after node."""
        found: dict[Path_, float] = {}
        level: dict[Path_, float] = {(): 1.0}
        for step in range(depth):
            children: dict[Path_, float] = {}
            for path, reached in level.items():
                chances = _softmax(self.totals(self.after(text, path), len(text) + step, params))
                for i in np.argsort(-chances)[:topk]:
                    children[(*path, int(self.ids[i]))] = reached * float(chances[i])
            found |= children
            level = best(children, topk)
        return best(found, nodes)


def best(paths: dict[Path_, float], count: int) -> dict[Path_, float]:
    return dict(sorted(paths.items(), key=lambda each: -each[1])[:count])


def paths_of(chunk: DraftChunk) -> dict[Path_, float]:
    """Survival of each node of a draft by its path, which names it: siblings differ."""
    paths: list[Path_] = []
    for token, parent in zip(chunk.tokens, chunk.parents, strict=True):
        paths.append(((*paths[parent], token)) if parent >= 0 else (token,))
    assert len(set(paths)) == len(paths)
    return dict(zip(paths, chunk.survival, strict=True))


def _softmax(scores: Vector) -> Vector:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()  # type: ignore[no-any-return]
