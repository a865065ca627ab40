"""Embedding and LM head: what a loaded model has of them to share, and what is read from its checkpoint instead."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.harness.tiny import save_tiny
from modeling.checkpoint_files import Checkpoint
from modeling.target import TargetSpec, load_target
from modeling.target_ends import EMBEDDING, LM_HEAD, read_ends
from tests.fakes.tiny_models import CONFIGS


@pytest.mark.parametrize("name", ["llama", "llama-tied-scaled-rope", "phi"])
def test_a_loaded_model_shows_what_it_keeps_plain(tmp_path: Path, name: str) -> None:
    """An LM head of its own is packed on the CPU, where nothing plain is left of it."""
    path = save_tiny(tmp_path, CONFIGS[name])
    runner = load_target(TargetSpec(model=str(path), device="cpu", dtype="bf16", max_num_seqs=1)).runner
    stored = load_file(path / "model.safetensors")
    assert torch.equal(runner.ends.embedding, stored[EMBEDDING].bfloat16())
    assert runner.ends.embedding.data_ptr() == _in_use(runner).data_ptr()
    assert (runner.ends.lm_head is runner.ends.embedding) == (LM_HEAD not in stored)
    assert LM_HEAD not in stored or runner.ends.lm_head is None


def _in_use(runner: object) -> torch.Tensor:
    computation = runner._computation  # type: ignore[attr-defined]
    if hasattr(computation, "embedding"):
        return computation.embedding
    return computation.model.get_input_embeddings().weight


@pytest.mark.parametrize(("name", "own"), [("llama", True), ("llama-tied-scaled-rope", False)])
def test_only_what_is_not_given_is_read(tmp_path: Path, name: str, own: bool) -> None:
    checkpoint = Checkpoint(str(save_tiny(tmp_path, CONFIGS[name])))
    stored = load_file(tmp_path / "model.safetensors")
    given = torch.zeros(1)
    read = read_ends(checkpoint, torch.bfloat16)
    assert torch.equal(read.embedding, stored[EMBEDDING].bfloat16())
    assert torch.equal(read.lm_head, stored[LM_HEAD if own else EMBEDDING].bfloat16())
    assert (read.lm_head is read.embedding) == (not own)
    shared = read_ends(checkpoint, embedding=given)
    assert shared.embedding is given
    assert torch.equal(shared.lm_head, stored[LM_HEAD]) if own else shared.lm_head is given
    both = read_ends(checkpoint, embedding=given, lm_head=given)
    assert both.lm_head is both.embedding is given
