"""NetModel: a draft net between the target's embedding and LM head, ready to draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import torch
import torch.nn.functional as F  # noqa: N812

from drafters.context import DrafterContext
from drafters.model_config import ModelConfig
from modeling.block_net import BlockNet, BlockNetConfig
from modeling.checkpoint_files import Checkpoint
from modeling.eagle_net import EagleNet, EagleNetConfig
from modeling.fusion import EagleFusion, FeatureFusion
from modeling.linear import Linear, Product
from modeling.modules import pack_linears
from modeling.net_checkpoint import check_target
from modeling.refusals import check_device
from modeling.target import DTYPES
from modeling.target_ends import read_ends

Net = TypeVar("Net", BlockNet, EagleNet)
Shape = TypeVar("Shape", BlockNetConfig, EagleNetConfig)
NetFusion = TypeVar("NetFusion", FeatureFusion, EagleFusion)


class DraftHead:
    """hidden [..., d] → logits [..., V']: the net's own LM head, or the target's, of a reduced vocabulary its rows."""

    def __init__(self, lm_head: torch.Tensor, net: BlockNet | EagleNet) -> None:
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
class NetModel(Generic[Net]):
    """embedding: [V, d], the net's own or the target's; that one's own tensor where both share a process."""

    net: Net
    embedding: torch.Tensor
    head: DraftHead

    @property
    def device(self) -> torch.device:
        """Where the net computes."""
        return self.net.norm.weight.device

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Target ids [...] → [..., d], in the net's dtype."""
        return F.embedding(tokens, self.embedding).to(self.net.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetFiles(Generic[Shape]):
    """A net's checkpoint and that of its target, which fit each other."""

    checkpoint: Checkpoint
    target: Checkpoint
    shape: Shape


def open_files(
    config: ModelConfig, context: DrafterContext, read_config: Callable[[Checkpoint, Checkpoint], Shape]
) -> NetFiles[Shape]:
    """What a net is by its files; ValueError where there are none, or of a net for another target."""
    checkpoint, target = Checkpoint(config.weights, config.revision), Checkpoint(context.target, context.revision)
    shape = read_config(checkpoint, target)
    check_target(shape, checkpoint, target)
    return NetFiles(checkpoint=checkpoint, target=target, shape=shape)


def make_model(net: Net, target: Checkpoint, config: ModelConfig, context: DrafterContext) -> NetModel[Net]:
    """Moves a net to where it is to compute, and reads the target's ends where they are not given."""
    threads = config.draft_threads or context.threads
    if threads is not None:
        torch.set_num_threads(threads)
    device = check_device(config.draft_device or context.device)
    dtype = config.draft_dtype or context.dtype
    computed = net.dtype if dtype == "auto" else DTYPES[dtype]
    ends = read_ends(target, computed, embedding=context.embedding, lm_head=context.lm_head)
    net.drop_copies(ends.embedding, ends.lm_head)
    net.to(device, computed).eval().requires_grad_(requires_grad=False)
    if device.type == "cpu":
        pack_linears(net)
    embedding = ends.embedding.to(device) if net.embedding is None else net.embedding
    return NetModel(net=net, embedding=embedding, head=DraftHead(ends.lm_head, net))


def on_target(fusion: NetFusion, context: DrafterContext) -> NetFusion:
    """A net's first part, for the process and the device of the target."""
    device = check_device(context.device)
    fusion.to(device).eval().requires_grad_(requires_grad=False)
    if device.type == "cpu":
        pack_linears(fusion)
    return fusion
