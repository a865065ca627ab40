"""Answering: answers of a model to many prompts, appended to a file as they come, to go on from there after a stop."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drafters.training.answers import Answer, answer_line, check_texts, read_answers
from drafters.training.prompt_sources import UserTurn
from protos.sampling_params import SamplingParams
from services.offline import LLM
from services.outputs import RequestOutput
from services.prompts import encode_chat

AT_ONCE = 64  # questions given to the engine together; what a stop can lose


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A user's turn, and how its answer is to be drawn."""

    prompt: str
    domain: str
    temperature: float
    top_p: float
    max_tokens: int

    def params(self) -> SamplingParams:
        """The seed hangs on the question alone: asked again, in whatever company, it has the same answer."""
        digest = hashlib.sha256(f"{self.temperature}/{self.prompt}".encode()).digest()
        return SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p if self.temperature else 1.0,
            max_tokens=self.max_tokens,
            seed=int.from_bytes(digest[:8], "big") >> 1,
        )

    def answered(self, output: RequestOutput) -> Answer:
        """The answer as it is kept."""
        (answer,) = output.outputs
        return Answer(prompt=self.prompt, domain=self.domain, temperature=self.temperature, answer_ids=answer.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How each prompt is answered: once for each temperature. ValueError where SamplingParams would not have it."""

    temperatures: tuple[float, ...]
    top_p: float
    max_tokens: int

    def __post_init__(self) -> None:
        for temperature in self.temperatures:
            SamplingParams(temperature=temperature, top_p=self.top_p, max_tokens=self.max_tokens)


def prompt_lines(path: Path) -> list[str]:
    """Of a file of prompts; ValueError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").split("\n")  # a text may hold other line ends unescaped
    except OSError as error:
        raise ValueError(f"prompts in {path} cannot be read: {error.strerror}; give a file of prompts") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"prompts in {path} are no text in UTF-8: {error}; convert the file") from error


def read_turns(path: Path) -> list[UserTurn]:
    """A line of JSON with `prompt` and perhaps `domain` for each prompt; ValueError names a line that is none."""
    return [_turn(line, f"{path}, line {number}") for number, line in enumerate(prompt_lines(path), 1) if line.strip()]


def appendable(path: Path) -> Path:
    """The path, where there is a file now; ValueError for one that answers cannot be appended to."""
    if path.suffix == ".gz":
        raise ValueError(
            f"{path} is packed, but answers are appended one by one; give a .jsonl file, and pack it later"
        )
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a .jsonl file")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def unanswered(turns: Sequence[UserTurn], drawing: Drawing, path: Path) -> list[Question]:
    """What the file has no answer to yet, each question once."""
    drop_torn_line(path)
    known = {(each.prompt, each.temperature) for each in read_answers(path)} if path.exists() else set()
    questions = {
        (turn.prompt, temperature): Question(
            prompt=turn.prompt,
            domain=turn.domain,
            temperature=temperature,
            top_p=drawing.top_p,
            max_tokens=drawing.max_tokens,
        )
        for turn in turns
        for temperature in drawing.temperatures
    }
    return [question for asked, question in questions.items() if asked not in known]


def drop_torn_line(path: Path) -> None:
    """Takes away a last line that a stop cut off, and ends one that only lacks its end; without a file, nothing."""
    whole = path.read_bytes() if path.exists() else b""
    torn = whole[whole.rfind(b"\n") + 1 :]
    if not torn:
        return
    try:
        json.loads(torn)
    except ValueError:
        if not torn.startswith(b"{"):
            raise ValueError(
                f"{path} ends with {torn[:40]!r}, which no answer begins with; give another file"
            ) from None
        os.truncate(path, len(whole) - len(torn))  # in place: rewritten, a stop half way would lose what is whole
    else:
        with path.open("ab") as file:
            file.write(b"\n")


def answer(
    questions: Sequence[Question], llm: LLM, path: Path, *, max_model_len: int, seen: Callable[[Sequence[Answer]], None]
) -> int:
    """Appends the answers, telling `seen` of each lot; returns how many questions were too long to be answered."""
    too_long = 0
    for start in range(0, len(questions), AT_ONCE):
        lot = questions[start : start + AT_ONCE]
        prompts = [encode_chat([{"role": "user", "content": each.prompt}], llm.get_tokenizer()).ids for each in lot]
        fitting = [
            (question, ids)
            for question, ids in zip(lot, prompts, strict=True)
            if len(ids) + question.max_tokens <= max_model_len
        ]
        too_long += len(lot) - len(fitting)
        outputs = llm.generate(
            [ids for _, ids in fitting], [question.params() for question, _ in fitting], use_tqdm=False
        )
        answers = [question.answered(output) for (question, _), output in zip(fitting, outputs, strict=True)]
        with path.open("a") as file:
            file.writelines(answer_line(each) for each in answers)
        seen(answers)
    return too_long


def _turn(line: str, where: str) -> UserTurn:
    try:
        prompt: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is no JSON: {error}") from error
    if not isinstance(prompt, dict) or not isinstance(prompt.get("prompt"), str) or not prompt["prompt"].strip():
        raise ValueError(f'{where} is no prompt; it must look like {{"prompt": "…", "domain": "…"}}')
    turn = UserTurn(prompt=prompt["prompt"], domain=prompt.get("domain", ""))
    check_texts(where, prompt=turn.prompt, domain=turn.domain)
    return turn
