"""is_evaluation: tells the prompts that drafters are evaluated on, so that none is ever trained on.

They are known by prints, not by text: hashes of some of their runs of words, as plagiarism is found by the smallest
hashes of a document (winnowing, Schleimer and others, SIGMOD 2003). A prompt that holds a whole evaluation prompt,
whatever is written around it and however it is spaced, has all of its runs, and so is told for sure.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")
RUN = 8  # words that nobody else writes in a row by chance
KEPT = 4  # prints of each prompt

WORD = re.compile(r"\w+")


def is_evaluation(prompt: str) -> bool:
    """True for every prompt of HumanEval, of MT-bench (both turns) and of this repository's benchmarks."""
    return not _known().isdisjoint(prints(prompt))


def prints(text: str) -> set[str]:
    """A hash of every run of RUN words; of all words where there are fewer."""
    words = WORD.findall(text.casefold())
    starts = range(max(len(words) - RUN, 0) + 1)
    return {hashlib.blake2b(" ".join(words[i : i + RUN]).encode(), digest_size=8).hexdigest() for i in starts}


def prints_to_keep(text: str) -> list[str]:
    """The KEPT smallest: chosen as if by lot, but always the same."""
    return sorted(prints(text))[:KEPT]


@cache
def _known() -> frozenset[str]:
    sets: dict[str, list[str]] = json.loads(FILE.read_text())
    return frozenset(each for prints in sets.values() for each in prints)
