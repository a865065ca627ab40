"""Block nets on disk: what was saved is loaded, and what does not fit is refused with both values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from benchmarks.harness.tiny import VOCAB_SIZE, save_tiny, tiny_llama
from modeling.block_checkpoint import BLOCK_NETS
from modeling.checkpoint_files import INDEX, WEIGHTS, Checkpoint
from modeling.net_checkpoint import check_target
from modeling.target_ends import read_ends
from tests.fakes.block_nets import DSPARK, random_net


def read(folder: Path) -> Any:
    return BLOCK_NETS.read_config(Checkpoint(str(folder)))


@pytest.mark.parametrize("changes", [{}, DSPARK | {"draft_vocab": (9, 4, 200)}, {"mask_token_id": 5}])
def test_what_was_saved_is_loaded(tmp_path: Path, changes: dict[str, Any]) -> None:
    net = random_net(**changes)
    BLOCK_NETS.save(net, tmp_path)
    checkpoint = Checkpoint(str(tmp_path))
    config = BLOCK_NETS.read_config(checkpoint)
    assert config == net.config
    loaded = BLOCK_NETS.load(checkpoint, config)
    assert loaded.dtype == torch.bfloat16
    for name, tensor in net.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name].to(tensor.dtype), tensor, rtol=0.01, atol=0)
    assert loaded.draft_ids(torch.tensor([200])).tolist() == net.draft_ids(torch.tensor([200])).tolist()
    taps = [torch.randn(3, 32, dtype=torch.bfloat16)]
    assert torch.equal(BLOCK_NETS.load_fusion(checkpoint, config)(taps), loaded.fusion(taps))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model_type", "llama", "is of model_type 'llama', but block nets are of 'paradraft_block_net'"),
        ("num_heads", 5, "num_heads 5 must be a multiple of num_kv_heads 2"),
        ("num_layers", "2", r"has '2' \(.*\) at the key 'num_layers'"),
        ("hidden_size", 0, "hidden_size 0 must be positive"),
        ("block_size", 1, "block_size 1 must be at least 2"),
        ("markov", "linear", r"has 'linear' \(.*\) at the key 'markov'"),
        ("markov", "rnn", "markov 'rnn' does not go with markov_rank 0"),
        ("feature_layers", [2, 1], r"feature_layers \[2, 1\] must be ascending"),
        ("mask_token_id", 258, "mask_token_id 258 must be below vocab_size 258"),
        ("depth", 3, "the key 'depth', which is unknown"),
    ],
)
def test_a_config_that_cannot_be(tmp_path: Path, key: str, value: object, message: str) -> None:
    BLOCK_NETS.save(random_net(), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(ValueError, match=message):
        read(tmp_path)


def test_a_config_that_lacks_a_key(tmp_path: Path) -> None:
    BLOCK_NETS.save(random_net(), tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    del config["num_heads"]
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"config.json of .* lacks the key 'num_heads'"):
        read(tmp_path)


@pytest.mark.parametrize("ids", [[5, 5], [3, 258], [-1], []])
def test_a_draft_vocabulary_that_cannot_be(tmp_path: Path, ids: list[int]) -> None:
    BLOCK_NETS.save(random_net(draft_vocab=(1, 2)), tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    save_file(tensors | {"d2t": torch.tensor(ids, dtype=torch.int64)}, tmp_path / WEIGHTS)
    with pytest.raises(ValueError, match="d2t must be different token ids below vocab_size 258"):
        read(tmp_path)


def test_weights_that_are_not_its_config_s(tmp_path: Path) -> None:
    BLOCK_NETS.save(random_net(), tmp_path)
    checkpoint, tensors = Checkpoint(str(tmp_path)), load_file(tmp_path / WEIGHTS)
    config = BLOCK_NETS.read_config(checkpoint)
    for changed, message in (
        ({"norm.weight": torch.ones(16)}, r"tensor norm.weight of .* is \[16\], but by config.json it is \[32\]"),
        ({"extra": torch.ones(1)}, "have, but config.json does not, extra"),
    ):
        save_file(tensors | changed, tmp_path / WEIGHTS)
        with pytest.raises(ValueError, match=message):
            BLOCK_NETS.load(Checkpoint(str(tmp_path)), config)
    del tensors["norm.weight"]
    save_file(tensors, tmp_path / WEIGHTS)
    with pytest.raises(ValueError, match=r"lack norm.weight"):
        BLOCK_NETS.load(Checkpoint(str(tmp_path)), config)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no config.json"):
        read(tmp_path)
    (tmp_path / "training.pt").touch()
    with pytest.raises(ValueError, match=r"a training run that has not looked .* yet, so no weights; go on .*--resume"):
        read(tmp_path)
    BLOCK_NETS.save(random_net(), tmp_path)
    (tmp_path / WEIGHTS).write_bytes(b"cut off")
    with pytest.raises(ValueError, match="could not be read"):
        read(tmp_path)
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(ValueError, match=r"has neither model.safetensors nor model.safetensors.index.json"):
        read(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json of .* could not be read"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 32}, "for a target of hidden_size 32, but that of .* is 64"),
        ({"hidden_size": 64, "vocab_size": 300}, f"of vocab_size 300, but that of .* is {VOCAB_SIZE}"),
        ({"hidden_size": 64, "feature_layers": (0, 2)}, "reads target layer 2, but .* has 2 layers, 0 to 1"),
    ],
)
def test_another_target_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    target = Checkpoint(str(save_tiny(tmp_path / "target")))
    BLOCK_NETS.save(random_net(**changes), tmp_path / "net")
    net = Checkpoint(str(tmp_path / "net"))
    with pytest.raises(ValueError, match=message):
        check_target(BLOCK_NETS.read_config(net), net, target)
    fitting = random_net(hidden_size=64, feature_layers=(0, 1)).config
    check_target(fitting, net, target)


def test_ends_of_a_target(tmp_path: Path) -> None:
    tied = read_ends(Checkpoint(str(save_tiny(tmp_path / "tied"))), torch.bfloat16)
    assert tied.embedding is tied.lm_head
    assert (tied.embedding.shape, tied.embedding.dtype) == ((VOCAB_SIZE, 64), torch.bfloat16)
    config = tiny_llama()
    config.tie_word_embeddings = False
    folder = save_tiny(tmp_path / "untied", config)
    untied, tensors = read_ends(Checkpoint(str(folder)), torch.float32), load_file(folder / WEIGHTS)
    assert torch.equal(untied.embedding, tensors["model.embed_tokens.weight"])
    assert torch.equal(untied.lm_head, tensors["lm_head.weight"])


def test_weights_in_several_files(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path)
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    halves = {"a.safetensors": sorted(tensors)[::2], "b.safetensors": sorted(tensors)[1::2]}
    for file, names in halves.items():
        save_file({name: tensors[name] for name in names}, folder / file)
    index = {"weight_map": {name: file for file, names in halves.items() for name in names}}
    (folder / INDEX).write_text(json.dumps(index))
    checkpoint = Checkpoint(str(folder))
    assert checkpoint.names() == set(tensors)
    assert all(torch.equal(checkpoint.tensor(name), tensor) for name, tensor in tensors.items())
    with pytest.raises(ValueError, match="no tensor 'nothing'"):
        checkpoint.tensor("nothing")


def test_a_revision_of_a_directory(tmp_path: Path) -> None:
    BLOCK_NETS.save(random_net(), tmp_path)
    with pytest.raises(ValueError, match="revision is 'main'"):
        Checkpoint(str(tmp_path), "main")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rms_norm_eps", float("nan"), "rms_norm_eps nan must be a number from 0"),
        ("rope_theta", 0.0, "rope_theta 0.0 must be a number above 0"),
        ("rope_scale", float("inf"), "rope_scale inf must be a number above 0"),
        ("rope_frequencies", [1.0], "rope_frequencies must be 8 numbers, half of head_dim 16"),
    ],
)
def test_numbers_that_no_draft_comes_of(tmp_path: Path, key: str, value: object, message: str) -> None:
    test_a_config_that_cannot_be(tmp_path, key, value, message)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    BLOCK_NETS.save(random_net(), tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    tensors["norm.weight"][3] = torch.nan
    save_file(tensors, tmp_path / WEIGHTS)
    checkpoint = Checkpoint(str(tmp_path))
    with pytest.raises(ValueError, match=r"tensor norm\.weight of .* has values that are no finite numbers"):
        BLOCK_NETS.load(checkpoint, read(tmp_path))


def test_weights_of_several_dtypes_compute_in_the_widest(tmp_path: Path) -> None:
    """The fusion runs beside the target: one that cannot compute would end every request with an error."""
    BLOCK_NETS.save(random_net(), tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    save_file({name: each.float() if "norm" in name else each for name, each in tensors.items()}, tmp_path / WEIGHTS)
    checkpoint = Checkpoint(str(tmp_path))
    fusion = BLOCK_NETS.load_fusion(checkpoint, read(tmp_path))
    assert {each.dtype for each in fusion.parameters()} == {torch.float32}
    assert BLOCK_NETS.load(checkpoint, read(tmp_path)).fusion([torch.randn(3, 32)]).isfinite().all()


@pytest.mark.parametrize("index", ["{}", "[]", '{"weight_map": [1]}', '{"weight_map": {"a": 1}}', '{"weight_map": {}}'])
def test_an_index_that_names_no_files(tmp_path: Path, index: str) -> None:
    BLOCK_NETS.save(random_net(), tmp_path)
    (tmp_path / WEIGHTS).unlink()
    (tmp_path / INDEX).write_text(index)
    with pytest.raises(ValueError, match=f"{INDEX} of .* names no files in `weight_map`"):
        Checkpoint(str(tmp_path)).names()
