"""Runs requests through an engine, step by step, and collects what each one got."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from protos.messages import Finish, Request, RequestStats, TokenLogprob
from verifier.engine import Engine


@dataclass
class Outcome:
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    finish: Finish | None = None
    stop_reason: int | str | None = None
    logprobs: list[TokenLogprob] = field(default_factory=list)
    stats: RequestStats = field(default_factory=RequestStats)
    error: str | None = None


def run(
    engine: Engine, requests: Iterable[Request], *, each_step: Callable[[int], None] = lambda step: None
) -> dict[str, Outcome]:
    """Adds all requests, steps until nothing is left. `each_step` may add and abort others."""
    outcomes: dict[str, Outcome] = {}
    for request in requests:
        engine.add(request)
    step = 0
    while engine.has_work:
        each_step(step)
        for verdict in engine.step():
            outcome = outcomes.setdefault(verdict.request_id, Outcome())
            outcome.tokens += verdict.tokens
            outcome.text += verdict.text
            outcome.logprobs += verdict.logprobs
            outcome.finish, outcome.stop_reason = verdict.finish, verdict.stop_reason
            outcome.stats, outcome.error = verdict.stats, verdict.error
        step += 1
        assert step < 5000, "the engine does not come to an end"
    return outcomes
