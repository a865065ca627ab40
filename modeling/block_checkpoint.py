"""BLOCK_NETS: block nets on disk, their own and published ones, and their first parts for the verifier."""

from __future__ import annotations

from modeling.block_net import BlockNet, BlockNetConfig, block_fusion
from modeling.layouts.deepspec import DEEPSPEC
from modeling.layouts.speculators_block import SPECULATORS_BLOCK
from modeling.layouts.z_lab import Z_LAB
from modeling.net_checkpoint import NetKind


def _demands(config: BlockNetConfig) -> dict[str, bool]:
    return {
        f"block_size {config.block_size} must be at least 2": config.block_size >= 2,
        f"markov {config.markov!r} does not go with markov_rank {config.markov_rank}": (
            (config.markov == "none") == (config.markov_rank == 0) and config.markov_rank >= 0
        ),
        f"mask_token_id {config.mask_token_id} must be below vocab_size {config.vocab_size}": (
            config.mask_token_id is None or 0 <= config.mask_token_id < config.vocab_size
        ),
    }


BLOCK_NETS = NetKind(
    name="block net",
    model_type="paradraft_block_net",
    config=BlockNetConfig,
    net=BlockNet,
    fusion=block_fusion,
    layouts=(DEEPSPEC, Z_LAB, SPECULATORS_BLOCK),
    demands=_demands,
)
