"""BlockModel: a block net between the target's embedding and LM head, ready to draft."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812

from drafters.block_config import BlockConfig
from drafters.context import DrafterContext
from modeling.block_checkpoint import load_block_net, load_fusion, read_config
from modeling.block_net import BlockNet
from modeling.checkpoint_files import Checkpoint
from modeling.fusion import FeatureFusion
from modeling.linear import Linear, Product
from modeling.modules import pack_linears
from modeling.net_checkpoint import check_target
from modeling.refusals import check_device
from modeling.target import DTYPES
from modeling.target_ends import read_ends


class DraftHead:
    """hidden [..., d] → logits [..., V']: the net's own LM head, or the target's, of a reduced vocabulary its rows."""

    def __init__(self, lm_head: torch.Tensor, net: BlockNet) -> None:
        weight = lm_head.to(net.norm.weight.device)
        self._product: Product
        if net.lm_head is not None:
            self._product = net.lm_head
        elif net.d2t is None:
            self._product = partial(F.linear, weight=weight.to(net.dtype))
        else:
            self._product = Linear(weight[net.d2t].to(net.dtype))

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._product(hidden.flatten(0, -2)).view(*hidden.shape[:-1], -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockModel:
    """embedding: [V, d], the net's own or the target's; that one's own tensor where both share a process."""

    net: BlockNet
    embedding: torch.Tensor
    head: DraftHead

    @property
    def device(self) -> torch.device:
        """Where the net computes."""
        return self.net.norm.weight.device


def load_block_model(config: BlockConfig, context: DrafterContext) -> BlockModel:
    """Reads the net, and the target's ends where they are not given; ValueError where they do not fit each other."""
    threads = config.draft_threads or context.threads
    if threads is not None:
        torch.set_num_threads(threads)
    device = check_device(config.draft_device or context.device)
    checkpoint, target = Checkpoint(config.weights, config.revision), Checkpoint(context.target, context.revision)
    shape = read_config(checkpoint, target)
    check_target(shape, checkpoint, target)
    if config.num_speculative_tokens > shape.num_predictions:
        raise ValueError(
            f"speculative_config: num_speculative_tokens is {config.num_speculative_tokens}, but a block of "
            f"{config.weights!r} predicts {shape.num_predictions}; ask for no more"
        )
    net = load_block_net(checkpoint, shape)
    dtype = config.draft_dtype or context.dtype
    computed = net.dtype if dtype == "auto" else DTYPES[dtype]
    ends = read_ends(target, computed, embedding=context.embedding, lm_head=context.lm_head)
    net.drop_copies(ends.embedding, ends.lm_head)
    net.to(device, computed).eval().requires_grad_(requires_grad=False)
    if device.type == "cpu":
        pack_linears(net)
    embedding = ends.embedding.to(device) if net.embedding is None else net.embedding
    return BlockModel(net=net, embedding=embedding, head=DraftHead(ends.lm_head, net))


def read_fusion(config: BlockConfig, context: DrafterContext) -> FeatureFusion:
    """The net's first part, for the process and the device of the target; ValueError where it does not fit it."""
    checkpoint, target = Checkpoint(config.weights, config.revision), Checkpoint(context.target, context.revision)
    shape = read_config(checkpoint, target)
    check_target(shape, checkpoint, target)
    device = check_device(context.device)
    fusion = load_fusion(checkpoint, shape).to(device).eval().requires_grad_(requires_grad=False)
    if device.type == "cpu":
        pack_linears(fusion)
    return fusion
