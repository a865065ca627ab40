"""Weights that come with paradraft: taken where none are given, told where there are none, and part of the wheel."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from drafters import shipped
from drafters.dflash import DFlash
from drafters.registry import build_drafter, build_fusion, parse_config, resolved
from drafters.suffix_config import SuffixConfig
from modeling.block_checkpoint import BLOCK_NETS
from services.config import EngineArgs
from tests.drafters.featured import context
from tests.fakes.block_nets import random_net
from tests.house.sources import PACKAGES, ROOT

TARGET = "some-target"
DFLASH = {"method": "dflash", "num_speculative_tokens": 3}


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of shipped weights, with those of dflash for TARGET in it, and of nothing else."""
    folder = tmp_path / "weights"
    monkeypatch.setattr(shipped, "WEIGHTS", folder)
    BLOCK_NETS.save(random_net(), folder / TARGET / "dflash")
    return folder


def test_they_are_taken_where_none_are_given(weights: Path, checkpoint: Path) -> None:
    given = parse_config(DFLASH | {"model": "mine"})
    assert resolved(given, TARGET) == given
    assert resolved(parse_config(DFLASH), TARGET) == replace(given, model=str(weights / TARGET / "dflash"))


def test_drafter_and_fusion_are_built_of_them(weights: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (weights / TARGET).rename(weights / checkpoint.name)
    monkeypatch.chdir(checkpoint.parent)
    told = context(Path(checkpoint.name))
    assert isinstance(build_drafter(parse_config(DFLASH), told), DFlash)
    fusion = build_fusion(parse_config(DFLASH), told)
    assert fusion is not None
    assert fusion.layers == (0,)


@pytest.mark.parametrize("method", ["dspark", "draft_model"])
def test_where_there_are_none_it_says_how_to_get_some(weights: Path, method: str) -> None:
    with pytest.raises(ValueError, match=f"no weights of method '{method}' .* target '{TARGET}'") as caught:
        resolved(parse_config({"method": method}), TARGET)
    assert "(there are some for dflash)" in str(caught.value)
    assert "as `model`" in str(caught.value)
    assert f"paradraft train {method} --target {TARGET}" in str(caught.value)


def test_another_target_has_none(weights: Path) -> None:
    for target in ("other", str(weights / TARGET), f"../weights/{TARGET}", "."):
        with pytest.raises(ValueError, match="no weights of method 'dflash'"):
            resolved(parse_config(DFLASH), target)


def test_an_unfinished_folder_has_none(weights: Path) -> None:
    (weights / TARGET / "dflash" / "config.json").unlink()
    assert shipped.shipped_weights(TARGET) == {}


def test_a_method_without_weights_needs_none() -> None:
    assert resolved(SuffixConfig(), "anything") == SuffixConfig()


def test_options_are_refused_before_anything_is_loaded(weights: Path) -> None:
    assert EngineArgs.model_validate({"model": TARGET, "speculative_config": DFLASH}).speculative_config is not None
    with pytest.raises(ValueError, match="no weights of method 'dspark'"):
        EngineArgs.model_validate({"model": TARGET, "speculative_config": {"method": "dspark"}})


def test_the_wheel_holds_them(tmp_path: Path) -> None:
    """A project of our build configuration with weights of every kind of file in it."""
    for name in ("pyproject.toml", ".gitignore", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    folder = Path("drafters", "weights", TARGET, "dflash")
    (tmp_path / folder).mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "provenance.json", "tokenizer.json"):
        (tmp_path / folder / name).write_text("{}")
    packed = {file.distribution_path for file in WheelBuilder(str(tmp_path)).recurse_included_files()}
    assert {str(folder / file.name) for file in (tmp_path / folder).iterdir()} <= packed
