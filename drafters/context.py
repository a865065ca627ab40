"""DrafterContext: what a drafter may know of the target it guesses for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterContext:
    """target, revision: the target model as given to `TargetSpec`. vocab_size: ids below it may be drafted.

    max_num_seqs, max_model_len: the engine's limits, which size a drafter's own state. device, dtype, threads: what
    the target runs with, and the default of a drafter that has a model.
    """

    target: str
    vocab_size: int
    revision: str | None = None
    max_num_seqs: int = 16
    max_model_len: int = 8192
    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None
