"""Learned drafters with random weights, in the shapes that training makes: what they cost does not depend on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from drafters.registry import build_drafter, parse_config
from drafters.training.answers import Split
from drafters.training.assembly import block_config, eagle_config
from drafters.training.recipe import BLOCK_METHODS, make_recipe
from modeling.block_checkpoint import BLOCK_NETS
from modeling.block_net import BlockNet
from modeling.eagle_checkpoint import EAGLE_NETS
from modeling.eagle_net import EagleNet
from modeling.target import Target
from protos.arrays import BFLOAT16
from protos.interfaces import Drafter
from protos.messages import DraftQuery
from protos.sampling_params import SamplingParams
from services.config import EngineArgs
from services.in_process import drafter_context

CONTEXT = 256
NEWS = 3  # tokens that a verification committed
VOCABULARY = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """length: tokens that one draft has at most. slots: p_eagle's slot inputs."""

    method: str
    length: int
    layers: int
    slots: str = "fused"

    @property
    def recipe_fields(self) -> dict[str, Any]:
        fields = {"layers": self.layers, "block_size": self.length, "draft_vocab": 0}
        return fields | ({"slots": self.slots} if self.method == "p_eagle" else {})


def random_drafter(shape: Shape, target: Target, dtype: str, folder: Path) -> Drafter:
    """Its net is written to `folder` and loaded as any other."""
    recipe = make_recipe(shape.method, shape.recipe_fields)
    size = target.vocab_size
    words = None if size <= VOCABULARY else tuple(range(0, size, size // VOCABULARY))[:VOCABULARY]
    nothing = Split(train=(), held_out=())
    if shape.method in BLOCK_METHODS:
        BLOCK_NETS.save(BlockNet(replace(block_config(recipe, target.config, nothing), draft_vocab=words)), folder)
    else:
        EAGLE_NETS.save(EagleNet(replace(eagle_config(recipe, target.config, nothing), draft_vocab=words)), folder)
    given = {"model": target.name, "dtype": dtype, "max_num_seqs": target.runner.num_slots}
    args = EngineArgs.model_validate(given)
    ends = target.runner.ends
    context = replace(drafter_context(args, target, threads=None), embedding=ends.embedding, lm_head=ends.lm_head)
    keys = {"method": shape.method, "model": str(folder), "num_speculative_tokens": shape.length}
    return build_drafter(parse_config(keys), context)


def draft_round(drafter: Drafter, shape: Shape, target: Target, *, batch: int) -> Callable[[], None]:
    """A round of `batch` requests at CONTEXT tokens, each with NEWS fresh ones; it can be repeated."""
    requests = [f"r{i}" for i in range(batch)]
    for name in requests:  # one by one: a call reads only so many features of long texts
        _answers(drafter, [_query(name, shape, target, start=0, salt=0)])
    # Two texts in turns: a drafter that knows the news already would have less to do.
    turns = [[_query(name, shape, target, start=CONTEXT, salt=salt) for name in requests] for salt in (1, 2)]
    count = 0

    def run() -> None:
        nonlocal count
        count += 1
        _answers(drafter, turns[count % 2])

    return run


def _answers(drafter: Drafter, queries: list[DraftQuery]) -> None:
    for chunk in drafter.draft(queries):
        if chunk.error or len(chunk.tokens) == 0:
            raise RuntimeError(f"no draft: {chunk}")


def _query(name: str, shape: Shape, target: Target, *, start: int, salt: int) -> DraftQuery:
    length = CONTEXT + NEWS
    text = (np.arange(length) * 7 + salt * (np.arange(length) >= CONTEXT)) % target.vocab_size
    rows = length - 1 - max(start - 1, 0)
    drawn = np.random.default_rng(salt).standard_normal((rows, target.config.hidden_size), dtype=np.float32)
    return DraftQuery(
        request_id=name,
        base_len=length,
        tail=tuple(text[start:].tolist()),
        budget=shape.length,
        params=SamplingParams(temperature=0, seed=0, max_tokens=length),
        features=(drawn.view(np.uint32) >> 16).astype(np.uint16).view(BFLOAT16),
    )
