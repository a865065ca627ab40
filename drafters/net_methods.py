"""naming_method: whoever takes a trained net for a causal LM is told the method that its weights are of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from drafters.context import DrafterContext
from drafters.model_config import ModelConfig
from modeling.block_checkpoint import BLOCK_NETS
from modeling.checkpoint_files import Checkpoint
from modeling.eagle_checkpoint import EAGLE_NETS
from modeling.net_checkpoint import NetKind
from modeling.net_config import Config


@contextmanager
def naming_method(config: ModelConfig, context: DrafterContext) -> Iterator[None]:
    """A ValueError inside becomes one that names the method, where the weights are a net's."""
    try:
        yield
    except ValueError as error:
        method = _method_of_net(config, context)
        if method is None:
            raise
        raise ValueError(
            f"speculative_config: {config.weights!r} is no causal LM, but a net of method {method}; "
            f'add "method": "{method}"'
        ) from error


def _method_of_net(config: ModelConfig, context: DrafterContext) -> str | None:
    """None where the weights are no net's, or not to be read."""
    try:
        checkpoint = Checkpoint(config.weights, config.revision)
        target = Checkpoint(context.target, context.revision)
        _ = checkpoint.config
    except ValueError:
        return None
    if (block := _read(BLOCK_NETS, checkpoint, target)) is not None:
        return "dflash" if block.markov == "none" and not block.confidence else "dspark"
    if (eagle := _read(EAGLE_NETS, checkpoint, target)) is not None:
        return "eagle3" if eagle.slots == "none" else "p_eagle"
    return None


def _read(kind: NetKind[Config, Any], checkpoint: Checkpoint, target: Checkpoint) -> Config | None:
    try:
        return kind.read_config(checkpoint, target)
    except ValueError:
        return None
