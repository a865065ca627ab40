"""EngineConfig: limits and choices of one engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Limits of one engine.

    num_speculative_tokens: longest draft verified at once (tree nodes count). max_num_batched_tokens: rows of one
    forward. max_waiting: requests that may queue for a slot; one more is refused. draft_timeout_s: how long a step
    waits for drafts before it decodes plainly. acceptance: the rule of `verifier.acceptance`; ratio keeps the
    distribution of plain decoding, match also its text.
    """

    num_speculative_tokens: int = 0
    max_num_batched_tokens: int = 128
    max_waiting: int = 256
    draft_timeout_s: float = 0.25
    acceptance: Literal["match", "ratio"] = "match"
