"""EAGLE nets on disk: what was saved is loaded, and what does not fit is refused. See also test_block_checkpoint.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from modeling.block_checkpoint import BLOCK_NETS
from modeling.checkpoint_files import WEIGHTS, Checkpoint
from modeling.eagle_checkpoint import EAGLE_NETS
from tests.fakes import block_nets
from tests.fakes.eagle_nets import EAGLE_31, random_net


@pytest.mark.parametrize(
    "changes",
    [
        {},
        EAGLE_31 | {"draft_vocab": (9, 4, 200), "own_head": True},
        {"slots": "fused", "num_slots": 4},
        {"slots": "mask", "num_slots": 2},
    ],
)
def test_what_was_saved_is_loaded(tmp_path: Path, changes: dict[str, Any]) -> None:
    net = random_net(**changes)
    EAGLE_NETS.save(net, tmp_path)
    checkpoint = Checkpoint(str(tmp_path))
    config = EAGLE_NETS.read_config(checkpoint)
    assert config == net.config
    loaded = EAGLE_NETS.load(checkpoint, config)
    assert loaded.dtype == torch.bfloat16
    for name, tensor in net.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name].to(tensor.dtype), tensor, rtol=0.01, atol=0)
    assert loaded.draft_ids(torch.tensor([200])).tolist() == net.draft_ids(torch.tensor([200])).tolist()
    taps = [torch.randn(3, 32, dtype=torch.bfloat16)] * 2
    assert torch.equal(EAGLE_NETS.load_fusion(checkpoint, config)(taps), loaded.fusion(taps))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model_type", "llama", "is of model_type 'llama', but EAGLE nets are of 'paradraft_eagle_net'"),
        ("num_heads", 5, "num_heads 5 must be a multiple of num_kv_heads 2"),
        ("slots", "heads", r"has 'heads' \(.*\) at the key 'slots'"),
        ("slots", "mask", "slots 'mask' does not go with num_slots 1"),
        ("num_slots", 4, "slots 'none' does not go with num_slots 4"),
        ("num_slots", 0, "slots 'none' does not go with num_slots 0"),
        ("block_size", 3, "the key 'block_size', which is unknown to EAGLE nets"),
    ],
)
def test_a_config_that_cannot_be(tmp_path: Path, key: str, value: object, message: str) -> None:
    EAGLE_NETS.save(random_net(), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(ValueError, match=message):
        EAGLE_NETS.read_config(Checkpoint(str(tmp_path)))


def test_weights_that_are_not_its_config_s(tmp_path: Path) -> None:
    EAGLE_NETS.save(random_net(), tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    config = EAGLE_NETS.read_config(Checkpoint(str(tmp_path)))
    save_file(tensors | {"fusion.norms.0.weight": torch.ones(32)}, tmp_path / WEIGHTS)
    for load in (EAGLE_NETS.load, EAGLE_NETS.load_fusion):
        with pytest.raises(ValueError, match=r"have, but config.json does not, fusion.norms.0.weight"):
            load(Checkpoint(str(tmp_path)), config)


def test_a_net_of_another_kind_is_refused(tmp_path: Path) -> None:
    BLOCK_NETS.save(block_nets.random_net(), tmp_path)
    with pytest.raises(ValueError, match="is of model_type 'paradraft_block_net', but EAGLE nets"):
        EAGLE_NETS.read_config(Checkpoint(str(tmp_path)))
