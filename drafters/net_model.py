"""NetModel: a draft net between the target's embedding and LM head, ready to draft."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Generic

import torch
import torch.nn.functional as F  # noqa: N812

from drafters.context import DrafterContext
from drafters.model_config import ModelConfig
from modeling.block_net import BlockNet
from modeling.checkpoint_files import Checkpoint
from modeling.eagle_net import EagleNet
from modeling.fusion import NetFusion
from modeling.linear import PackedLinear, Product
from modeling.modules import pack_linears
from modeling.net_checkpoint import Net, NetKind, check_target
from modeling.net_config import Config
from modeling.refusals import check_device
from modeling.target import DTYPES
from modeling.target_ends import read_ends


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
            self._product = PackedLinear(weight[net.d2t].to(net.dtype))

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
class NetFiles(Generic[Config]):
    """A net's checkpoint and that of its target, which fit each other."""

    checkpoint: Checkpoint
    target: Checkpoint
    shape: Config


def open_files(kind: NetKind[Config, Net], config: ModelConfig, context: DrafterContext) -> NetFiles[Config]:
    """What a net is by its files; ValueError where there are none, or of a net for another target."""
    checkpoint, target = Checkpoint(config.weights, config.revision), Checkpoint(context.target, context.revision)
    shape = kind.read_config(checkpoint, target)
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
        # A target's rows must not depend on how many there are; drafts may, as the target decides on each.
        pack_linears(net, PackedLinear)
    embedding = ends.embedding.to(device) if net.embedding is None else net.embedding
    return NetModel(net=net, embedding=embedding, head=DraftHead(ends.lm_head, net))


def load_fusion(kind: NetKind[Config, Net], config: ModelConfig, context: DrafterContext) -> NetFusion:
    """A net's first part, for the process and the device of the target; ValueError where it does not fit it."""
    files = open_files(kind, config, context)
    fusion, device = kind.load_fusion(files.checkpoint, files.shape), check_device(context.device)
    fusion.to(device).eval().requires_grad_(requires_grad=False)
    if device.type == "cpu":
        pack_linears(fusion)
    return fusion
