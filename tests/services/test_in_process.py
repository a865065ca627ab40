"""A drafter beside its engine: embedding and LM head are the target's own tensors, neither copied nor read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.harness.tiny import save_tiny, tiny_llama
from drafters.block_model import BlockModel
from drafters.registry import build_drafter
from modeling.block_checkpoint import BLOCK_NETS
from modeling.target import Target, load_target
from services.config import EngineArgs
from services.in_process import drafter_context, local_drafter
from tests.fakes.block_nets import random_net

VOCABULARY = tuple(range(32, 128))


def make(folder: Path, net: dict[str, Any], *, tied: bool = True, **keys: Any) -> tuple[EngineArgs, Target]:
    config = tiny_llama()
    config.tie_word_embeddings = tied
    BLOCK_NETS.save(random_net(hidden_size=config.hidden_size, **net), folder / "net")
    options = {
        "model": str(save_tiny(folder / "target", config)),
        "dtype": "bf16",
        "device": "cpu",
        "max_num_seqs": 2,
        "max_model_len": 128,
        "speculative_config": {"method": "dflash", "model": str(folder / "net"), "num_speculative_tokens": 3} | keys,
    }
    args = EngineArgs.model_validate(options)
    return args, load_target(args.target_spec())


def beside(args: EngineArgs, target: Target) -> BlockModel:
    transport = local_drafter(args, target)
    assert transport is not None
    return transport._drafter._model  # type: ignore[attr-defined]


def test_a_drafter_of_the_whole_vocabulary_holds_no_matrix_of_its_own(tmp_path: Path) -> None:
    args, target = make(tmp_path, {})
    model = beside(args, target)
    theirs = target.runner.ends.embedding.data_ptr()
    assert model.embedding.data_ptr() == theirs
    assert model.head._product.keywords["weight"].data_ptr() == theirs  # type: ignore[attr-defined]


@pytest.mark.parametrize("tied", [True, False])
def test_a_reduced_head_takes_its_rows_from_what_is_there(tmp_path: Path, tied: bool) -> None:
    """Untied, the head is packed for the CPU: then its matrix, and nothing else, is read from the checkpoint."""
    args, target = make(tmp_path, {"draft_vocab": VOCABULARY}, tied=tied)
    model = beside(args, target)
    assert model.embedding.data_ptr() == target.runner.ends.embedding.data_ptr()
    hidden = torch.randn(5, 64).bfloat16()
    whole = target.runner._computation.lm_head(hidden)  # type: ignore[attr-defined]
    torch.testing.assert_close(model.head(hidden), whole[:, list(VOCABULARY)], atol=1e-2, rtol=1e-2)


def test_another_precision_casts_rows_and_not_the_embedding(tmp_path: Path) -> None:
    args, target = make(tmp_path, {"draft_vocab": VOCABULARY}, draft_dtype="fp32")
    model = beside(args, target)
    assert model.embedding.data_ptr() == target.runner.ends.embedding.data_ptr()
    assert model.head(torch.randn(1, 64)).dtype == torch.float32


def test_a_drafter_elsewhere_reads_them_in_its_own_precision(tmp_path: Path) -> None:
    args, target = make(tmp_path, {}, draft_dtype="fp32")
    context = drafter_context(args, target, threads=1)
    assert context.embedding is context.lm_head is None
    assert args.speculative_config is not None
    model = build_drafter(args.speculative_config.drafter, context)._model  # type: ignore[attr-defined]
    assert model.embedding.dtype == torch.float32
    assert model.embedding.data_ptr() == model.head._product.keywords["weight"].data_ptr()
    assert torch.equal(model.embedding.bfloat16(), target.runner.ends.embedding)
