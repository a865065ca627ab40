"""Sources: where prompts come from, a file or what needs none. What drafters are evaluated on never gets through."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from drafters.training.evaluation_prompts import is_evaluation
from drafters.training.prompt_sources import UserTurn, code_turns, maths_turns
from services.answering import read_turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """prompts: a file. The others are how many: magpie are written by the model, maths are word problems, code asks for
    functions. ValueError where there are none, or fewer than one of a kind."""

    prompts: Path | None = None
    magpie: int | None = None
    maths: int | None = None
    code: int | None = None

    def __post_init__(self) -> None:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        if set(given.values()) == {None}:
            raise ValueError("there are no prompts; give --prompts FILE, --magpie N, --maths N or --code N, or several")
        for name, value in given.items():
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")

    def turns(self) -> tuple[list[UserTurn], int]:
        """Those that need no model, and how many were left out as prompts that drafters are evaluated on."""
        turns = [
            *(read_turns(self.prompts) if self.prompts is not None else ()),
            *(maths_turns(self.maths) if self.maths is not None else ()),
            *(code_turns(self.code) if self.code is not None else ()),
        ]
        kept = [turn for turn in turns if not is_evaluation(turn.prompt)]
        return kept, len(turns) - len(kept)
