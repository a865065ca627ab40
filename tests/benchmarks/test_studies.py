"""The studies beside the race of drafters: parallel slots, transformers' assisted generation, training runs."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.peak_memory import peak_memory
from benchmarks.harness.tiny import save_tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("tiny")))


def run(name: str, out: Path, *arguments: str) -> dict[str, Any]:
    command = ["--quick", "--out", str(out), "--threads", "1", "--dtypes", "fp32", *arguments]
    assert importlib.import_module(f"benchmarks.{name}").main(command) == 0
    written: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    return written["sections"]


def test_slots_times_both_ways_and_every_method(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.slots.peak_memory", lambda *work: 1.0)  # a process of its own each: tested below
    heads, eagles, blocks = run("slots", tmp_path, "--model", tiny).values()
    assert [row["slots"] for row in heads] == [1, 2]
    assert {(row["method"], row["slot inputs"]) for row in eagles} == {
        ("eagle3", None), ("p_eagle", "fused"), ("p_eagle", "mask"),
    }  # fmt: skip
    assert {row["method"] for row in blocks} == {"dflash", "dspark"}
    assert all(row["ms"] > 0 for row in (*eagles, *blocks))


def grow(size: int) -> int:
    return len(bytearray(b"x") * size)


def test_peak_memory_is_that_of_the_work() -> None:
    assert 60 < peak_memory(grow, 64 * 2**20) < 200


def test_assisted_answers_as_transformers_does(tiny: str, tmp_path: Path) -> None:
    draft = save_tiny(tmp_path / "draft", seed=1)
    methods = ("suffix", json.dumps({"method": "draft_model", "model": str(draft), "num_speculative_tokens": 7}))
    given = ("--model", tiny, "--assistant", str(draft), "--domains", "maths", "--methods", *methods)
    (rows,) = run("assisted", tmp_path, *given).values()
    assert len(rows) == 4 + 1 + len(methods)
    assert all(row["as transformers"] == row["as its own plain"] == row["of"] == 1 for row in rows)


def test_assisted_needs_a_draft_model(tiny: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give the folder of one by --assistant"):
        run("assisted", tmp_path, "--model", tiny)


def training_run(folder: Path, method: str, lengths: list[float]) -> str:
    looks = [
        {
            "step": 100 * i,
            "loss": 2.0,
            "held_out": {
                "loss": 2.0,
                "accepted_length": length,
                "expected_length": length - 0.1,
                "by_position": [0.5, 0.25],
                "by_domain": {"chat": length, "code": length + 1},
            },
        }
        for i, length in enumerate(lengths, start=1)
    ]
    recipe = dict.fromkeys(("layers", "block_size", "markov", "slots", "taps", "draft_vocab"), 1) | {"method": method}
    kept = {"recipe": recipe, "parameters": 5, "training_seconds": 60, "steps": 300, "looks": looks}
    folder.mkdir()
    (folder / "provenance.json").write_text(json.dumps(kept))
    return str(folder)


def test_study_compares_the_weights_that_runs_left(tmp_path: Path) -> None:
    runs = (
        training_run(tmp_path / "dflash", "dflash", [1.5, 2.0, 1.8]),
        training_run(tmp_path / "dspark", "dspark", [1.0, 2.5]),
    )
    plot = tmp_path / "study.png"
    what, lengths, positions = run("study", tmp_path / "out", "--plot", str(plot), "--model", "none", *runs).values()
    assert [row["best at step"] for row in what] == [200, 200]
    assert [(row["τ"], row["ratio"], row["τ code"]) for row in lengths] == [(2.0, 1.0, 3.0), (2.5, 1.25, 3.5)]
    assert positions[1] == {"run": "dspark", "1": 0.5, "2": 0.25}
    assert plot.stat().st_size > 0


def test_study_refuses_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no provenance\.json"):
        run("study", tmp_path, "--model", "none", str(tmp_path))
    (tmp_path / "provenance.json").write_text("{}")
    with pytest.raises(ValueError, match="has no looks"):
        run("study", tmp_path, "--model", "none", str(tmp_path))
