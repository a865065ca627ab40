"""BlockModel: a block net between the target's embedding and LM head."""

from __future__ import annotations

from drafters.block_config import BlockConfig
from drafters.context import DrafterContext
from drafters.net_model import NetModel, load_fusion, make_model, open_files
from modeling.block_checkpoint import BLOCK_NETS
from modeling.block_net import BlockNet
from modeling.fusion import NetFusion

BlockModel = NetModel[BlockNet]


def load_block_model(config: BlockConfig, context: DrafterContext) -> BlockModel:
    """Reads the net, and the target's ends where they are not given; ValueError where they do not fit each other."""
    files = open_files(BLOCK_NETS, config, context)
    if config.num_speculative_tokens > files.shape.num_predictions:
        raise ValueError(
            f"speculative_config: num_speculative_tokens is {config.num_speculative_tokens}, but a block of "
            f"{config.weights!r} predicts {files.shape.num_predictions}; ask for no more"
        )
    return make_model(BLOCK_NETS.load(files.checkpoint, files.shape), files.target, config, context)


def load_block_fusion(config: BlockConfig, context: DrafterContext) -> NetFusion:
    """The net's first part, for the process and the device of the target; ValueError where it does not fit it."""
    return load_fusion(BLOCK_NETS, config, context)
