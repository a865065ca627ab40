"""OwnTurns: user turns that the model writes itself, by going on from the head of a user's turn (arXiv 2406.08464)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drafters.training.evaluation_prompts import is_evaluation
from drafters.training.prompt_sources import UserTurn
from protos.messages import Tokens
from protos.sampling_params import SamplingParams
from services.answering import AT_ONCE, drop_torn_line
from services.offline import LLM
from services.outputs import RequestOutput
from services.prompts import encode_chat

DOMAIN = "chat"
LONGEST = 192  # tokens; what has not ended by then is left out
MARK = "Here stand the user's words."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A line of the file. draw: the number of the attempt, which is its seed; many attempts bring nothing new."""

    prompt: str
    domain: str
    draw: int


class OwnTurns:
    """The first `count` different turns of a model, kept in a file from which it goes on after a stop.

    Attempts are numbered, and the number alone decides what is written, so the first of many are those of few.
    """

    def __init__(self, path: Path, count: int) -> None:
        """ValueError names a line of the file that is none of its own."""
        self._path = path
        self._count = count
        self._drawn = list(_read(path)) if count else []

    @property
    def turns(self) -> list[UserTurn]:
        """Those written so far."""
        return [UserTurn(prompt=each.prompt, domain=each.domain) for each in self._drawn[: self._count]]

    @property
    def missing(self) -> int:
        """How many are still to be written."""
        return max(self._count - len(self._drawn), 0)

    def write(self, llm: LLM, *, max_model_len: int, seen: Callable[[Sequence[str]], None]) -> None:
        """Writes the missing ones, telling `seen` of each lot. RuntimeError where a whole lot brought nothing new."""
        head = user_head(llm.get_tokenizer())
        longest = min(LONGEST, max_model_len - len(head))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draw = self._drawn[-1].draw + 1 if self._drawn else 0
        while self.missing:
            draws = range(draw, draw + AT_ONCE)
            params = [SamplingParams(temperature=1.0, max_tokens=longest, seed=each) for each in draws]
            outputs = llm.generate([head] * AT_ONCE, params, use_tqdm=False)
            fresh = self._fresh(zip(draws, outputs, strict=True))[: self.missing]
            if not fresh:
                raise RuntimeError(
                    f"the model wrote {len(self._drawn)} different prompts, and {AT_ONCE} further attempts brought no "
                    "new one; ask for no more"
                )
            with self._path.open("a") as file:
                file.writelines(json.dumps(asdict(each)) + "\n" for each in fresh)
            self._drawn += fresh
            draw += AT_ONCE
            seen([each.prompt for each in fresh])

    def _fresh(self, attempts: Iterable[tuple[int, RequestOutput]]) -> list[_Drawn]:
        """What ended by itself, says something, and was not there before."""
        known = {_folded(each.prompt) for each in self._drawn}
        fresh = []
        for draw, output in attempts:
            (written,) = output.outputs
            prompt = written.text.strip()
            if written.finish_reason == "stop" and _folded(prompt) not in {*known, ""} and not is_evaluation(prompt):
                known.add(_folded(prompt))
                fresh.append(_Drawn(prompt=prompt, domain=DOMAIN, draw=draw))
        return fresh


def user_head(tokenizer: Any) -> Tokens:
    """What the chat template writes before a user's words; ValueError where it does not leave them as they are."""
    head, found, _ = (encode_chat([{"role": "user", "content": MARK}], tokenizer).text or "").partition(MARK)
    if not found:
        raise ValueError("this model's chat template changes the user's words, so it cannot write them itself")
    return tuple(tokenizer(head, add_special_tokens=False)["input_ids"])


def _folded(prompt: str) -> str:
    """The same for prompts that differ in case and spaces only."""
    return " ".join(prompt.casefold().split())


def _read(path: Path) -> Iterator[_Drawn]:
    drop_torn_line(path)
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
        try:
            yield _Drawn(**json.loads(line))
        except (json.JSONDecodeError, TypeError) as error:
            raise ValueError(f"{path}, line {number} is no prompt that a model wrote here: {error}") from error
