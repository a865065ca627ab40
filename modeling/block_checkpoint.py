"""Block nets on disk, their own and published ones, and their first parts for the verifier."""

from __future__ import annotations

from pathlib import Path

from modeling.block_net import BlockNet, BlockNetConfig
from modeling.checkpoint_files import Checkpoint
from modeling.fusion import FeatureFusion
from modeling.layouts.deepspec import DEEPSPEC
from modeling.layouts.layout import find_layout
from modeling.layouts.speculators_block import SPECULATORS_BLOCK
from modeling.layouts.z_lab import Z_LAB
from modeling.net_checkpoint import NetKind, check_demands, fill

BLOCK_NETS = NetKind(name="block net", config=BlockNetConfig, model_type="paradraft_block_net")
LAYOUTS = (DEEPSPEC, Z_LAB, SPECULATORS_BLOCK)


def save_block_net(net: BlockNet, folder: Path) -> None:
    """Writes config.json and the weights, in bf16."""
    BLOCK_NETS.save(net, net.config, folder)


def read_config(checkpoint: Checkpoint, target: Checkpoint | None = None) -> BlockNetConfig:
    """ValueError names the first thing in config.json that cannot be.

    target: the net's, on whose depth it depends in some published ones which layers they read.
    """
    layout = find_layout(LAYOUTS, checkpoint)
    if layout is None:
        config = BLOCK_NETS.read_config(checkpoint)
    else:
        config = BLOCK_NETS.checked(layout.configure(checkpoint, target), checkpoint.name)
    demands = {
        f"block_size {config.block_size} must be at least 2": config.block_size >= 2,
        f"markov {config.markov!r} does not go with markov_rank {config.markov_rank}": (
            (config.markov == "none") == (config.markov_rank == 0) and config.markov_rank >= 0
        ),
        f"mask_token_id {config.mask_token_id} must be below vocab_size {config.vocab_size}": (
            config.mask_token_id is None or 0 <= config.mask_token_id < config.vocab_size
        ),
    }
    check_demands(demands, checkpoint.name)
    return config


def load_block_net(checkpoint: Checkpoint, config: BlockNetConfig) -> BlockNet:
    """The net with its weights, in their stored dtype, on the CPU."""
    net, layout = BlockNet(config), find_layout(LAYOUTS, checkpoint)
    if layout is None:
        fill(net, checkpoint, "")
    else:
        layout.fill(net, checkpoint, config)
    return net


def load_fusion(checkpoint: Checkpoint, config: BlockNetConfig) -> FeatureFusion:
    """The verifier's part alone, in its stored dtype, on the CPU."""
    fusion = FeatureFusion(config.feature_layers, config.hidden_size, config.rms_norm_eps)
    layout = find_layout(LAYOUTS, checkpoint)
    if layout is None:
        fill(fusion, checkpoint, "fusion.")
    else:
        layout.fill(fusion, checkpoint, config, prefix="fusion.")
    return fusion
