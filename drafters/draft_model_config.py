"""DraftModelConfig: the keys of `speculative_config` for method draft_model."""

from __future__ import annotations

from dataclasses import dataclass

from drafters.model_config import ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftModelConfig(ModelConfig):
    """model: a causal LM with the target's tokenizer."""
