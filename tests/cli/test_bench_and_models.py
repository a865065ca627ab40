"""paradraft bench and models: what is there is listed, and what is asked for runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from drafters import shipped
from services.cli.bench import benchmarks
from tests.cli.conftest import Call


def test_bench_lists_every_benchmark_with_its_summary(paradraft: Call) -> None:
    result = paradraft("bench")
    assert result.exit_code == 0
    assert {"forward_cost", "speculation", "http"} <= set(benchmarks())
    for name, summary in benchmarks().items():
        assert summary
        assert f"{name} " in result.output


def test_bench_runs_one_and_passes_its_exit_code(
    paradraft: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "benchmarks"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "echo.py").write_text(
        '"""echo: says it back."""\ndef main(argv):\n    print(argv)\n    return len(argv)\n'
    )
    (package / "helper.py").write_text('"""No benchmark."""\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    assert benchmarks() == {"echo": "says it back."}
    assert (ok := paradraft("bench", "echo")).exit_code == 0, ok.output
    failed = paradraft("bench", "echo", "--rounds", "3", "--help")
    assert failed.exit_code == 1
    assert "['--rounds', '3', '--help']" in failed.output


def test_bench_says_when_there_are_none(paradraft: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = paradraft("bench")
    assert result.exit_code == 1
    assert "clone of the repository" in result.stderr


def test_models_tells_that_the_built_in_one_is_not_converted_yet(
    paradraft: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path))
    result = paradraft("models")
    assert result.exit_code == 0
    assert "smollm2-135m  built in, converted at first use" in result.output
    assert str(tmp_path) in result.output
    assert list(tmp_path.iterdir()) == []


def test_models_tells_which_drafters_come_with_it(
    paradraft: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in ("dspark", "dflash"):
        folder = tmp_path / "smollm2-135m" / method
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    monkeypatch.setattr(shipped, "WEIGHTS", tmp_path)
    assert "drafters dflash, dspark" in paradraft("models").output


@pytest.mark.model
def test_models_tells_the_size_of_the_converted_one(paradraft: Call) -> None:
    from modeling.builtin import builtin_dir

    directory = builtin_dir()
    result = paradraft("models")
    assert str(directory) in result.output.replace("\n", "")
    assert "ready, 5" in result.output
