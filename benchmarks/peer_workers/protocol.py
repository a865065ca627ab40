"""How a contestant talks to the race: settings in argv, then one JSON line for each question and its answer."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

Prompts = list[list[int]]


class Settings(NamedTuple):
    """What a contestant is built from. options: its own further settings. concurrency: the most requests at a time."""

    model: str
    dtype: str
    threads: int
    concurrency: int
    options: dict[str, Any]


# Answers the prompts, at most so many at a time, each with exactly so many tokens: (prompts, concurrency, max_tokens).
Generate = Callable[[Prompts, int, int], Prompts]


def serve(build: Callable[[Settings], Generate]) -> None:
    """Builds, says so, then answers questions until the input ends. Whatever engines print goes to stderr."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    generate = build(Settings(**json.loads(sys.argv[1])))
    _say(replies, {"ready": True})
    for line in sys.stdin:
        question = json.loads(line)
        start = time.perf_counter()
        answers = generate(question["prompts"], question["concurrency"], question["max_tokens"])
        _say(replies, {"seconds": time.perf_counter() - start, "answers": answers})


def _say(replies: Any, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()
