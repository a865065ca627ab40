"""A run shared by two processes over gloo."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import multiprocessing

from drafters.training.answers import Split
from drafters.training.ranks import joined_ranks
from drafters.training.recipe import Recipe
from modeling.target import TargetSpec, load_target
from services.free_port import free_port
from tests.training.runs import Bench


def train_on_two_ranks(bench: Bench, folder: Path) -> None:
    """The bench's own run. Each process loads the target for itself."""
    port = free_port("127.0.0.1")
    arguments = (port, bench.target.name, bench.split, bench.recipe, folder)
    multiprocessing.spawn(_rank, arguments, nprocs=2, join=True)


def _rank(rank: int, port: int, model: str, split: Split, recipe: Recipe, folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "RANK": str(rank)}
    target = load_target(
        TargetSpec(model=model, dtype="fp32", device="cpu", max_num_seqs=4, max_model_len=recipe.max_length)
    )
    with joined_ranks(torch.device("cpu")) as ranks:
        Bench(target=target, split=split, recipe=recipe).train(folder, ranks=ranks)
