"""What drafters that read features are given in tests: texts, features that follow from them, queries with both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.tiny import VOCAB_SIZE
from drafters.context import DrafterContext
from protos.arrays import BFLOAT16
from protos.interfaces import Drafter
from protos.messages import DraftChunk, DraftQuery
from protos.sampling_params import SamplingParams
from tests.fakes.queries import query

TEXT = tuple((7 * i) % 250 for i in range(40))
REDUCED = tuple(range(200, 40, -2))
NOISY = SamplingParams(temperature=0.8, seed=7)

Expected = tuple[list[int], list[float]]  # tokens and survival of a draft

_WIDTH = 32  # of the tiny nets and of the tiny target
_TABLE = torch.randn(VOCAB_SIZE, _WIDTH, generator=torch.Generator().manual_seed(9)).bfloat16()


def features_of(tokens: Sequence[int]) -> torch.Tensor:
    """A stand-in for a target's features: those of a position follow from its token."""
    return _TABLE[torch.tensor(tokens, dtype=torch.long)]


def featured(query: DraftQuery, before: Sequence[int] = ()) -> DraftQuery:
    """The query as an engine sends it to a drafter that reads features; `before` stands in front of the tail."""
    processed = (*before, *query.tail)[max(query.tail_start - 1, 0) : -1]
    return replace(query, features=features_of(processed).view(torch.uint16).numpy().view(BFLOAT16))


def draft(drafter: Drafter, text: Sequence[int], *, seen: int = 0, **options: Any) -> DraftChunk:
    """The draft after a text whose first `seen` tokens the drafter has."""
    (chunk,) = drafter.draft([featured(query(text, seen=seen, **options), text[:seen])])
    return chunk


def context(target: Path, **changes: Any) -> DrafterContext:
    given = {"vocab_size": VOCAB_SIZE, "max_num_seqs": 4, "max_model_len": 4096, "dtype": "fp32", "threads": 1}
    return DrafterContext(target=str(target), **(given | changes))
