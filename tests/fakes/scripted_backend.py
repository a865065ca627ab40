"""ScriptedBackend: a Backend that answers with given text, token by token, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from prometheus_client.metrics_core import Metric

from benchmarks.harness.tiny import byte_tokenizer
from protos.messages import Finish, Request, RequestStats, TokenLogprob, Verdict
from protos.speculation_counts import SpeculationCounts
from services.backend import ModelCard, Outcome, Refusal, Speculation
from services.metrics_engine import engine_families
from verifier.engine_stats import EngineStats

STATS = RequestStats(
    speculation=SpeculationCounts(num_drafts=4, drafted=8, verified=6, accepted_per_pos=(3, 1), sources={"suffix": 4}),
    steps=9,
    cached_prompt_tokens=2,
)


def spell(text: str) -> Callable[[Request], list[Verdict]]:
    """Answers `text` as far as max_tokens allows, one byte a verdict; a character is shown with its last byte."""

    def _answer(request: Request) -> list[Verdict]:
        data = text.encode()[: request.params.max_tokens]
        verdicts = []
        shown = 0
        for i, byte in enumerate(data):
            so_far = data[: i + 1].decode(errors="ignore")
            verdicts.append(
                Verdict(
                    request_id=request.request_id,
                    tokens=(byte,),
                    sources=("",),
                    text=so_far[shown:],
                    logprobs=_logprobs(byte, request),
                    stats=STATS,
                )
            )
            shown = len(so_far)
        finish = Finish.STOP if len(data) == len(text.encode()) else Finish.LENGTH
        return [*verdicts, Verdict(request_id=request.request_id, finish=finish, stats=STATS)]

    return _answer


def _logprobs(byte: int, request: Request) -> tuple[TokenLogprob, ...]:
    wanted = request.params.logprobs
    if wanted is None:
        return ()
    return (TokenLogprob(logprob=-0.5, rank=1, top=((byte, -0.5), (0, float("-inf")))[:wanted]),)


@dataclass
class ScriptedBackend:
    """`script` makes the answer to a request; `refusal`, if set, is the outcome of every call."""

    script: Callable[[Request], list[Verdict]] = field(default_factory=lambda: spell("ok"))
    refusal: Refusal | None = None
    hold_s: float = 0.0
    max_sequences: int = 512
    probed: Speculation | Refusal = field(default_factory=lambda: Speculation(method="suffix", up=False, reason="lost"))
    probes: int = 0
    seen: list[Request] = field(default_factory=list)
    closed: int = 0

    async def card(self) -> ModelCard:
        return ModelCard(
            tokenizer=byte_tokenizer(),
            vocab_size=258,
            max_model_len=256,
            max_sequences=self.max_sequences,
            fingerprint="f" * 64,
            created=1,
        )

    async def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Outcome]:
        self.seen.extend(requests)
        try:
            if self.refusal is not None:
                yield self.refusal
                return
            for round_ in zip(*(self.script(request) for request in requests), strict=False):
                await asyncio.sleep(self.hold_s)
                yield round_
        finally:
            self.closed += 1

    async def metrics(self) -> list[list[Metric]]:
        return [
            engine_families(EngineStats(prompt_tokens=i + 1), model_name="m", engine=str(i), num_spec_tokens=2)
            for i in range(2)
        ]

    async def probe(self) -> Speculation | Refusal:
        self.probes += 1
        await asyncio.sleep(self.hold_s)
        return self.probed
