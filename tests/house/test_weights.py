"""Weights that ship are small, in bf16, made for the target they lie under, and say how."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors import safe_open

from drafters.registry import METHODS
from drafters.shipped import WEIGHTS

MAX_BYTES = 24_000_000  # of the weights; a draft model's tokenizer lies beside them
MAX_BYTES_TOGETHER = 120_000_000

FOLDERS = sorted(WEIGHTS.glob("*/*"))


def test_all_of_them_are_small_together() -> None:
    assert sum(file.stat().st_size for file in WEIGHTS.rglob("*") if file.is_file()) <= MAX_BYTES_TOGETHER


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_each_is_small_and_says_where_it_comes_from(folder: Path) -> None:
    assert folder.name in METHODS
    assert (folder / "model.safetensors").stat().st_size <= MAX_BYTES
    with safe_open(folder / "model.safetensors", framework="pt") as weights:
        kinds = {weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118  no mapping
    assert kinds <= {"BF16", "I64"}
    made = json.loads((folder / "provenance.json").read_text())
    assert made["target"]["model"] == folder.parent.name
    assert made["command"].startswith(f"paradraft train {folder.name} ")
    assert len(made["target"]["fingerprint"]) == 32
    assert made["answers"]["sha256"]
