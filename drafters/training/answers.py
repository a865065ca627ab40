"""Answers: texts of the target, read from a file, turned into token ids, and split by prompt."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from protos.messages import Tokens

MOST_HELD_OUT = 128
LEAST_ANSWER = 2  # an anchor, and one token to predict


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One line of a file of answers. `prompt` is the user's turn; `temperature` is what the answer was drawn with."""

    prompt: str
    answer_ids: Tokens
    domain: str = ""
    temperature: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Prompt and answer as the target reads them; the answer begins at `prompt_len`."""

    tokens: Tokens
    prompt_len: int
    domain: str

    @property
    def key(self) -> str:
        """Names these tokens, with this beginning of the answer, across runs."""
        return hashlib.sha256(f"{self.prompt_len}/{self.tokens}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What is trained on, and what is only looked at; no prompt is in both."""

    train: tuple[Example, ...]
    held_out: tuple[Example, ...]


def read_answers(path: Path) -> list[Answer]:
    """The answers in a .jsonl or .jsonl.gz file; ValueError names the line that is none."""
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            return [_answer(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise ValueError(f"answers in {path} cannot be read: {error}") from error


def split_answers(
    answers: Iterable[Answer], encode: Callable[[str], Tokens], *, held_out: float, max_length: int
) -> Split:
    """Examples of at most `max_length` tokens; a share `held_out` of the prompts, chosen by their hash, is kept apart.

    `encode` gives a user's turn in the target's chat template. Answers cut to fewer than LEAST_ANSWER tokens are left
    out, as are held-out ones beyond MOST_HELD_OUT. ValueError where one of the two sides is empty.
    """
    train: list[Example] = []
    apart: list[tuple[float, Example]] = []
    for answer in answers:
        example = _example(answer, encode(answer.prompt), max_length)
        place = _place(answer.prompt)
        if example is None:
            continue
        if place < held_out:
            apart.append((place, example))
        else:
            train.append(example)
    if not train or not apart:
        raise ValueError(
            f"{len(train)} answers to train on and {len(apart)} held out, by a share of {held_out:g}; some of both are "
            "needed: give more answers, another share held_out, or a larger max_length"
        )
    apart.sort(key=lambda pair: pair[0])
    return Split(train=tuple(train), held_out=tuple(example for _, example in apart[:MOST_HELD_OUT]))


def frequent_tokens(examples: Sequence[Example], size: int) -> Tokens:
    """The `size` tokens that stand most often in the answers, in ascending order; ties go to the lower id."""
    counts = Counter(token for example in examples for token in example.tokens[example.prompt_len :])
    ranked = sorted(counts, key=lambda token: (-counts[token], token))
    return tuple(sorted(ranked[:size]))


def digest(path: Path) -> str:
    """SHA-256 of the file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def answer_line(answer: Answer) -> str:
    """The line of JSON that `read_answers` reads, its end included."""
    return json.dumps(asdict(answer)) + "\n"


def check_texts(where: str, **texts: object) -> None:
    """ValueError for what is no text by JSON's rules and Unicode's: a surrogate alone cannot be tokenized."""
    for name, text in texts.items():
        if not isinstance(text, str) or any("\ud800" <= char <= "\udfff" for char in text):
            raise ValueError(f"{where} is no answer or prompt: {name} is {text!r:.80}; it must be a text")


def _answer(line: str, where: str) -> Answer:
    try:
        given: Any = json.loads(line)
        answer = Answer(
            prompt=given["prompt"],
            answer_ids=tuple(given["answer_ids"]),
            domain=given.get("domain", ""),
            temperature=given.get("temperature", 0.0),
        )
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{where} is no answer: {error}; it needs the keys prompt and answer_ids") from error
    check_texts(where, prompt=answer.prompt, domain=answer.domain)
    if not all(type(token) is int and token >= 0 for token in answer.answer_ids):
        raise ValueError(f"{where} is no answer: answer_ids must be token ids")
    return answer


def _example(answer: Answer, prompt: Tokens, max_length: int) -> Example | None:
    tokens = (prompt + answer.answer_ids)[:max_length]
    if len(tokens) < len(prompt) + LEAST_ANSWER:
        return None
    return Example(tokens=tokens, prompt_len=len(prompt), domain=answer.domain)


def _place(prompt: str) -> float:
    """Where a prompt stands between 0 and 1, evenly spread and the same in every run."""
    return int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8], "big") / 2**64
