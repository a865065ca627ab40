"""Session: one engine in this process, fed with a fixed number of requests at a time."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from protos.messages import Request, Tokens
from protos.sampling_params import SamplingParams
from verifier.engine import Engine
from verifier.engine_stats import EngineStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Answers in the order of the prompts, wall seconds, and the engine's counters over just this run."""

    answers: tuple[Tokens, ...]
    seconds: float
    stats: EngineStats

    @property
    def tokens_per_second(self) -> float:
        return sum(len(answer) for answer in self.answers) / self.seconds

    @property
    def accepted_length(self) -> float:
        """τ: tokens emitted per verified draft, the target's own included; 1 where nothing was drafted."""
        return 1 + self.stats.num_accepted_tokens / self.stats.num_drafts if self.stats.num_drafts else 1.0

    @property
    def tokens_per_step(self) -> float:
        """Tokens of one request per step that it took part in, drafted or not, at one request at a time."""
        return self.stats.generation_tokens / self.stats.steps

    @property
    def acceptance_by_position(self) -> list[float]:
        """Share of verified drafts whose (i+1)-th token was accepted."""
        return [round(count / self.stats.num_drafts, 3) for count in self.stats.accepted_per_pos]


class Session:
    """Every run is its own tenant: nothing that an earlier run left (prefixes, past answers) can help a later one."""

    _tenants = itertools.count()

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(self, prompts: Sequence[Tokens], params: SamplingParams, *, concurrency: int) -> Outcome:
        """Answers all prompts; prompt i draws with seed `params.seed + i`."""
        tenant = f"run-{next(self._tenants)}"
        waiting = deque(
            Request(request_id=f"{tenant}/{i}", prompt_ids=ids, params=_seeded(params, i), tenant=tenant)
            for i, ids in enumerate(prompts)
        )
        answers: dict[str, list[int]] = {request.request_id: [] for request in waiting}
        before, start = self._engine.stats(), time.perf_counter()
        running = 0
        while waiting or running:
            while waiting and running < concurrency:
                self._engine.add(waiting.popleft())
                running += 1
            for verdict in self._engine.step():
                answers[verdict.request_id].extend(verdict.tokens)
                running -= verdict.finish is not None
        seconds = time.perf_counter() - start
        return Outcome(
            answers=tuple(tuple(tokens) for tokens in answers.values()),
            seconds=seconds,
            stats=_since(before, self._engine.stats()),
        )


def _seeded(params: SamplingParams, i: int) -> SamplingParams:
    return replace(params, seed=(params.seed or 0) + i)


def _since(before: EngineStats, after: EngineStats) -> EngineStats:
    """Counters of the time between two snapshots; gauges are those of the later one."""
    counters = (
        "prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits", "num_drafts",
        "num_draft_tokens", "num_verified_tokens", "num_accepted_tokens", "draft_timeouts", "steps", "step_seconds",
        "forward_seconds", "draft_seconds",
    )  # fmt: skip
    changed = {name: getattr(after, name) - getattr(before, name) for name in counters}
    per_pos = itertools.zip_longest(after.accepted_per_pos, before.accepted_per_pos, fillvalue=0)
    return replace(after, **changed, accepted_per_pos=tuple(a - b for a, b in per_pos))
