"""Ranks: the processes of one training run, one for each device, as torchrun starts them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process's place among `world`."""

    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """True in the one process that writes files and reports."""
        return self.rank == 0

    def total(self, value: torch.Tensor) -> torch.Tensor:
        """The sum over all ranks, without gradients."""
        summed = value.detach().clone()
        if self.world > 1:
            distributed.all_reduce(summed)
        return summed

    def agreed(self, *, leader_says: bool, device: torch.device) -> bool:
        """What the leader says, for all: clocks differ, and all must stop at the same step."""
        return bool(self.total(torch.tensor(float(leader_says and self.leads), device=device)) > 0)


@contextmanager
def joined_ranks(device: torch.device) -> Iterator[Ranks]:
    """The ranks of this run, joined for the time of the block: NCCL where `device` is CUDA, else gloo."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Ranks(rank=distributed.get_rank(), world=world)
    finally:
        distributed.destroy_process_group()


def local_device(name: str) -> str:
    """The device of this process: `auto` and `cuda` become the one of its own local rank where there are several."""
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several and name in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{os.environ['LOCAL_RANK']}"
    return name
