"""Work: the one kind of thing a target does. Prefill, chunked prefill, decode and verification are all this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Append `tokens` after the first `start` rows of KV slot `slot`; give logits for the last `num_logits` of them.

    Rows at and after `start` are overwritten: rolling back is starting lower. `parents` None: each token follows the
    one before. Otherwise `parents[i]` is the index in `tokens` of token i's parent, -1 for the slot's row `start - 1`;
    a token sees the slot's first `start` rows, its ancestors and itself, and its position is `start` plus its depth.
    """

    slot: int
    start: int
    tokens: tuple[int, ...]
    num_logits: int
    parents: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Result of one packed forward over several works, rows in the order of the works.

    logits: [sum of num_logits, vocabulary] in the model's dtype. taps: one [rows, hidden] tensor for each tapped layer
    (output of decoder layer i), over all rows of all works.
    """

    logits: torch.Tensor
    taps: tuple[torch.Tensor, ...] = ()


class Runner(Protocol):
    """A causal LM with its KV slots. `forward` blocks; one thread at a time."""

    vocab_size: int
    num_slots: int
    max_len: int
    device: torch.device

    def forward(self, works: Sequence[Work], *, taps: tuple[int, ...] = ()) -> Forward: ...

    def copy_rows(self, source: int, slot: int, count: int) -> None:
        """Copies the first `count` rows of slot `source` into `slot`; nothing where they are the same slot."""
        ...

    def keep_path(self, slot: int, start: int, path: Sequence[int]) -> None:
        """After a tree: moves rows `start + path[i]` to `start + i`, so that the surviving path is contiguous."""
        ...
