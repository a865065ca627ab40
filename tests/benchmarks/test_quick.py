"""Each benchmark end to end on a tiny random model: its rows are there and finite; how fast it was is not looked at."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.tiny import save_tiny

IN_PROCESS = {
    "forward_cost": ("fp32", "bf16"),
    "engine_overhead": ("bf16",),
    "plain": ("fp32",),
    "speculation": ("bf16",),
}
WITH_A_SERVER = ("http", "startup")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("tiny")))


def run(name: str, model: str, out: Path, *arguments: str) -> dict[str, Any]:
    command = ["--quick", "--model", model, "--out", str(out), "--threads", "1", *arguments]
    assert importlib.import_module(f"benchmarks.{name}").main(command) == 0
    written: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    rows = [row for section in written["sections"].values() for row in section]
    assert rows
    assert all(math.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))
    return written


@pytest.mark.parametrize("name", IN_PROCESS)
def test_benchmark_runs(name: str, tiny: str, tmp_path: Path) -> None:
    run(name, tiny, tmp_path, "--dtypes", *IN_PROCESS[name])


@pytest.mark.ray
@pytest.mark.parametrize("name", WITH_A_SERVER)
def test_benchmark_with_a_server_runs(name: str, tiny: str, tmp_path: Path) -> None:
    run(name, tiny, tmp_path, "--dtypes", "fp32")


def test_gpu_check_runs_its_whole_course(tiny: str, tmp_path: Path) -> None:
    sections = run("gpu_check", tiny, tmp_path, "--device", "cpu", "--dtypes", "fp32")["sections"]
    exactness = sections["answers equal to plain decoding alone"]
    assert len(exactness) == 6
    assert all(row["equal"] == row["of"] for row in exactness)
    assert all(row["flips"] == 0 for row in sections["flips of the likeliest token, k=8 against k=1"])


def test_gpu_check_says_that_there_is_no_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert importlib.import_module("benchmarks.gpu_check").main(["--quick", "--out", str(tmp_path)]) == 0
    assert "no CUDA device" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_numerics_is_exact_where_it_must_be(tiny: str, tmp_path: Path) -> None:
    sections = run("numerics", tiny, tmp_path)["sections"]
    distance = {row["forward"]: row["mean KL"] for row in sections["distance to transformers fp32, per token"]}
    assert 0 <= distance["paradraft fp32"] < 1e-10 < distance["transformers bf16"]
    for row in sections["the same tokens in a tree and in a chain"]:
        assert row["rows"] > 0
        if row["verified in"] == "first branch of a tree":
            assert row["other bits"] == 0


def test_peers_race_us_against_transformers_and_say_who_is_missing(tiny: str, tmp_path: Path) -> None:
    written = run("peers", tiny, tmp_path, "--dtypes", "fp32", "--together", "2", "--vllm-python", "/nowhere")
    (rows,) = written["sections"].values()
    engines = {row["engine"] for row in rows}
    assert engines == {"transformers", "transformers prompt lookup", "paradraft", "paradraft suffix"}
    assert all(row["same answers"] == row["of"] for row in rows if row["engine"].startswith("paradraft"))
    notes = " ".join(written["notes"])
    assert "vLLM did not run" in notes
    assert "--vllm-python /nowhere" in notes
    assert "llama.cpp fp32 did not run" in notes
