"""Loading: what is refused and why, and what identifies a model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import BloomConfig, LlamaConfig, MistralConfig, Qwen2Config

from benchmarks.harness.tiny import save_tiny
from modeling.refusals import check_positions, check_truncatable
from modeling.target import TargetSpec, load_target
from tests.fakes.tiny_models import CONFIGS, SIZES


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("llama"), CONFIGS["llama"])


def spec(path: Path, **changes: object) -> TargetSpec:
    return TargetSpec(**({"model": str(path), "device": "cpu", "kv_cache_gib": 0.1, "max_num_seqs": 2} | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "int4"}, "int4"),
        ({"device": "tpu9"}, "tpu9"),
        ({"max_model_len": 513}, "513.*512"),
        ({"max_model_len": 1}, "max_model_len is 1"),
        ({"kv_cache_gib": 0.0001}, "raise kv_cache_gib"),
        ({"model": "/nowhere/at/all"}, "/nowhere/at/all"),
        ({"revision": "v2"}, "revision is 'v2'.*leave it out"),
    ],
)
def test_a_bad_value_is_named(llama: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load_target(spec(llama, **changes))


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is here")
def test_cuda_without_cuda_is_refused(llama: Path) -> None:
    with pytest.raises(ValueError, match="use device cpu"):
        load_target(spec(llama, device="cuda"))


def test_a_checkpoint_that_does_not_fit_its_config_is_refused(llama: Path, tmp_path: Path) -> None:
    """Weights that are not there would be random ones, which answer with nonsense and 200."""
    shutil.copytree(llama, tmp_path / "m")
    for key, value, words in (("num_hidden_layers", 4, r"lack 9 .*layers\.3\."), ("intermediate_size", 80, "mismatch")):
        (tmp_path / "m" / "config.json").write_text(
            json.dumps(json.loads((llama / "config.json").read_text()) | {key: value})
        )
        with pytest.raises(ValueError, match=words):
            load_target(spec(tmp_path / "m"))


@pytest.mark.parametrize("size", [0, 1000])
def test_weights_that_were_cut_off_are_refused(llama: Path, tmp_path: Path, size: int) -> None:
    shutil.copytree(llama, tmp_path / "m")
    weights = tmp_path / "m" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    with pytest.raises(ValueError, match="could not be loaded"):
        load_target(spec(tmp_path / "m"))


def test_a_directory_without_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json"):
        load_target(spec(tmp_path))


@pytest.mark.parametrize(
    "config",
    [
        MistralConfig(**SIZES, sliding_window=64),
        Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=64, max_window_layers=1),
    ],
)
def test_a_cache_that_forgets_is_refused_with_the_reason(config: object) -> None:
    """Case K3."""
    with pytest.raises(ValueError, match="sliding"):
        check_truncatable(config)


def test_slots_are_bounded_by_memory(llama: Path) -> None:
    token = 3 * 2 * 2 * 16 * 4
    target = load_target(spec(llama, max_num_seqs=64, kv_cache_gib=5.5 * 512 * token / 2**30, dtype="fp32"))
    assert target.runner.num_slots == 5


def test_the_fingerprint_follows_weights_and_tokenizer_not_the_folder(llama: Path, tmp_path: Path) -> None:
    same = save_tiny(tmp_path / "same", CONFIGS["llama"])
    other = save_tiny(tmp_path / "other", CONFIGS["llama"], seed=1)
    prints = [load_target(spec(path)).fingerprint for path in (llama, same, other)]
    assert prints[0] == prints[1] != prints[2]


def test_a_model_whose_attention_cannot_be_replaced_is_refused(tmp_path: Path) -> None:
    """Without the check its own attention would see the packed rows only, and answer nonsense."""
    path = save_tiny(tmp_path, BloomConfig(vocab_size=258, hidden_size=64, n_layer=2, n_head=4))
    with pytest.raises(ValueError, match="cannot be served"):
        load_target(spec(path))


def test_rotary_frequencies_that_follow_the_batch_are_refused() -> None:
    config = LlamaConfig(**SIZES, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0})
    with pytest.raises(ValueError, match="'dynamic' depends on the longest sequence"):
        check_positions(config)
