"""Tensors of published block nets: all are used or known, and what cannot be is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from benchmarks.harness.tiny import save_tiny
from modeling.block_checkpoint import BLOCK_NETS
from modeling.block_net import BlockNet
from modeling.checkpoint_files import PICKLED, WEIGHTS, Checkpoint
from modeling.net_checkpoint import check_target
from tests.modeling.published import HIDDEN
from tests.modeling.published_blocks import DEEPSPEC, IDS, SPECULATORS, SPECULATORS_DSPARK, Z_LAB, publish_block
from tests.modeling.test_layouts_block import load, read


@pytest.mark.parametrize("config", [Z_LAB, DEEPSPEC, SPECULATORS_DSPARK])
def test_every_tensor_is_used_or_known(tmp_path: Path, config: dict[str, Any]) -> None:
    folder, tensors = publish_block(tmp_path, config)
    training = {"verifier_lm_head.weight": torch.ones(2, 2), "layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}
    save_file(tensors | training, folder / WEIGHTS)
    assert isinstance(load(folder), BlockNet)
    for name in ("layers.0.self_attn.q_proj.bias", "layers.2.mlp.up_proj.weight", "aux_hidden_norms.0.weight"):
        save_file(tensors | {name: torch.ones(1)}, folder / WEIGHTS)
        with pytest.raises(ValueError, match=f"weights of .* have {name}, which the layout"):
            load(folder)
    for name in tensors:
        if name in ("embed_tokens.weight", "lm_head.weight", "d2t", "t2d"):
            continue
        save_file({each: tensor for each, tensor in tensors.items() if each != name}, folder / WEIGHTS)
        with pytest.raises(ValueError, match=f"lack {name}"):
            load(folder)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"fc.weight": torch.ones(HIDDEN, HIDDEN)}, r"fusion.linear.weight of .* is \[32, 32\], but .* \[32, 64\]"),
        ({"norm.weight": torch.ones(HIDDEN, dtype=torch.int8)}, "norm.weight of .* is of dtype int8, but"),
        ({"layers.0.self_attn.k_proj.weight": torch.ones(32, 16)}, "do not go together: .*k_proj.weight"),
        ({"d2t": torch.tensor(IDS)}, "d2t and t2d of .* name different tokens|d2t must be different token ids"),
        ({"d2t": torch.zeros(3, dtype=torch.int64)}, r"d2t of .* \[3\], but draft_vocab_size is 50"),
        ({"t2d": torch.ones(9, dtype=torch.bool)}, r"t2d of .* is \[9\], but vocab_size is 258"),
    ],
)
def test_tensors_that_cannot_be(tmp_path: Path, changed: dict[str, torch.Tensor], message: str) -> None:
    folder, tensors = publish_block(tmp_path, SPECULATORS)
    save_file(tensors | changed, folder / WEIGHTS)
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_a_reduced_vocabulary_without_its_map(tmp_path: Path) -> None:
    folder, tensors = publish_block(tmp_path, SPECULATORS)
    del tensors["d2t"]
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(ValueError, match="have no tensor 'd2t'"):
        read(folder)


@pytest.mark.parametrize("config", [Z_LAB, DEEPSPEC, SPECULATORS])
def test_another_target_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    folder, _ = publish_block(tmp_path / "net", config)
    target = Checkpoint(str(save_tiny(tmp_path / "target")))
    with pytest.raises(ValueError, match=r"hidden_size 32, but that of .* is 64"):
        check_target(read(folder), Checkpoint(str(folder)), target)


def test_pickled_weights(tmp_path: Path) -> None:
    folder, tensors = publish_block(tmp_path, Z_LAB)
    kept = load(folder)
    (folder / WEIGHTS).unlink()
    torch.save(tensors, folder / PICKLED)
    for name, tensor in load(folder).state_dict().items():
        assert torch.equal(tensor, kept.state_dict()[name])
    torch.save({"norm.weight": object()}, folder / PICKLED)
    with pytest.raises(ValueError, match="could not be read"):
        load(folder)


def test_norms_stored_wider_than_the_rest(tmp_path: Path) -> None:
    folder, tensors = publish_block(tmp_path, Z_LAB)
    save_file({name: t if "norm" in name else t.bfloat16() for name, t in tensors.items()}, folder / WEIGHTS)
    checkpoint = Checkpoint(str(folder))
    fusion = BLOCK_NETS.load_fusion(checkpoint, BLOCK_NETS.read_config(checkpoint))
    assert {each.dtype for each in fusion.parameters()} == {torch.float32}
