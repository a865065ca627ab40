"""DrafterContext: what a drafter may know of the target it guesses for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protos.draft_files import DraftFiles

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterContext:
    """target, revision: the target model as given to `TargetSpec`. vocab_size: ids below it may be drafted.

    max_num_seqs, max_model_len: the engine's limits, which size a drafter's own state. device, dtype, threads: what
    the target runs with, and the default of a drafter that has a model. embedding, lm_head: the target's own, [rows,
    hidden], where it lives in the same process and keeps them plain; a learned drafter shares them instead of reading
    them again. hidden_size, num_layers: the target's, and fingerprint, tokenizer: which weights and which tokenizer it
    has (modeling.fingerprint); they say where its drafts are stored. draft_files: opened, for a cached drafter.
    """

    target: str
    vocab_size: int
    revision: str | None = None
    max_num_seqs: int = 16
    max_model_len: int = 8192
    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None
    embedding: torch.Tensor | None = None
    lm_head: torch.Tensor | None = None
    hidden_size: int = 0
    num_layers: int = 0
    fingerprint: str = ""
    tokenizer: str = ""
    draft_files: DraftFiles | None = None
