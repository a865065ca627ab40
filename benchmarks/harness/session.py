"""Session: one engine in this process, fed with a fixed number of requests at a time."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from protos.messages import Finish, Request, RequestStats, Tokens, Verdict
from protos.sampling_params import SamplingParams
from protos.speculation_counts import SpeculationCounts
from verifier.engine import Engine
from verifier.engine_stats import EngineStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Milliseconds of one step of the engine: in drafting, and in the forward that verifies."""

    draft: float
    verify: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Answers in the order of the prompts, wall seconds, and over just this run: the engine's counters, its drafts.

    verifications: of all requests, those without a draft included. rounds: one for each step.
    """

    answers: tuple[Tokens, ...]
    seconds: float
    stats: EngineStats
    speculation: SpeculationCounts
    verifications: int
    rounds: tuple[Round, ...]


def tokens_per_second(run: Run) -> float:
    """The usual value of an `Asking`."""
    return sum(len(answer) for answer in run.answers) / run.seconds


class Session:
    """Every run is its own tenant: nothing that an earlier run left (prefixes, past answers) can help a later one."""

    _tenants = itertools.count()

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(self, prompts: Sequence[Tokens], params: SamplingParams, *, concurrency: int) -> Run:
        """Answers all prompts; prompt i draws with seed `params.seed + i`."""
        waiting = self._requests(prompts, params)
        answers: dict[str, list[int]] = {request.request_id: [] for request in waiting}
        before, start = self._engine.stats(), time.perf_counter()
        running, total = 0, RequestStats()
        rounds: list[Round] = []
        snapshot = before
        while waiting or running:
            while waiting and running < concurrency:
                self._engine.add(waiting.popleft())
                running += 1
            for verdict in self._step():
                answers[verdict.request_id].extend(verdict.tokens)
                if verdict.finish is not None:
                    running -= 1
                    total += verdict.stats
            earlier, snapshot = snapshot, self._engine.stats()
            rounds.append(_round(_since(earlier, snapshot)))
        seconds = time.perf_counter() - start
        return Run(
            answers=tuple(tuple(tokens) for tokens in answers.values()),
            seconds=seconds,
            stats=_since(before, snapshot),
            speculation=total.speculation,
            verifications=total.steps,
            rounds=tuple(rounds),
        )

    def stream(self, prompt: Tokens, params: SamplingParams) -> Iterator[Verdict]:
        """The verdicts on one prompt, each as soon as it is made."""
        self._engine.add(self._requests([prompt], params)[0])
        finished = False
        while not finished:
            for verdict in self._step():
                finished = verdict.finish is not None
                yield verdict

    def _step(self) -> list[Verdict]:
        verdicts = self._engine.step()
        for verdict in verdicts:
            if verdict.finish in {Finish.ERROR, Finish.ABORT}:
                raise RuntimeError(f"request {verdict.request_id} ended by {verdict.finish}: {verdict.error}")
        return verdicts

    def _requests(self, prompts: Sequence[Tokens], params: SamplingParams) -> deque[Request]:
        tenant = f"run-{next(self._tenants)}"
        return deque(
            Request(request_id=f"{tenant}/{i}", prompt_ids=ids, params=_seeded(params, i), tenant=tenant)
            for i, ids in enumerate(prompts)
        )


@dataclass(slots=True, kw_only=True)
class Asking:
    """A trial: the session answers all prompts, which is worth `value`. `last` is the run behind the last value."""

    session: Session
    prompts: Sequence[Tokens]
    params: SamplingParams
    concurrency: int
    value: Callable[[Run], float] = tokens_per_second
    last: Run = field(init=False)

    def __call__(self) -> float:
        self.last = self.session.run(self.prompts, self.params, concurrency=self.concurrency)
        return self.value(self.last)


def _seeded(params: SamplingParams, i: int) -> SamplingParams:
    return replace(params, seed=(params.seed or 0) + i)


def _round(step: EngineStats) -> Round:
    return Round(draft=step.draft_seconds * 1e3, verify=step.forward_seconds * 1e3)


def _since(before: EngineStats, after: EngineStats) -> EngineStats:
    """Work and time between two snapshots; the rest as in the later one."""
    names = (
        *("prompt_tokens", "generation_tokens", "unanswered_draft_queries"),
        *("steps", "step_seconds", "forward_seconds", "draft_seconds"),
    )
    return replace(after, **{name: getattr(after, name) - getattr(before, name) for name in names})
