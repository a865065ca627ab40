"""DFlashConfig, DSparkConfig: the keys of `speculative_config` for the methods that draft a block in one forward."""

from __future__ import annotations

from dataclasses import dataclass

from drafters.model_config import ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockConfig(ModelConfig):
    """model: a block net trained for the target. num_speculative_tokens: at most what a block of it predicts."""

    num_speculative_tokens: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class DFlashConfig(BlockConfig):
    """model: a net without Markov and confidence heads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DSparkConfig(BlockConfig):
    """model: a net with a Markov head, a confidence head or both."""
