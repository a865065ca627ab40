"""VerifierService: one engine as a Backend: several sequences a call, refusals as data, latencies measured."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric

from modeling.target import Target
from protos.draft_files import DraftFilesStatus
from protos.messages import Request, Verdict
from protos.sampling_params import SamplingParams
from services.backend import ModelCard, Outcome, Refusal, Speculation
from services.metrics_draft_files import drafter_families
from services.metrics_engine import engine_families
from services.metrics_latency import Latency
from verifier.admission import QueueFullError
from verifier.engine_loop import EngineLoop

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What an engine is called in metrics and /health. method: how it speculates, None where it does not."""

    model_name: str
    engine: str = "0"
    method: str | None = None
    num_spec_tokens: int = 0


class VerifierService:
    """Knows neither Ray nor HTTP. The engine's thread does the work; here is only asyncio."""

    def __init__(
        self,
        target: Target,
        loop: EngineLoop,
        identity: Identity,
        *,
        max_waiting: int,
        draft_files_status: Callable[[], Awaitable[DraftFilesStatus | None]] | None = None,
    ) -> None:
        """draft_files_status: tells how those are that the drafter reads; None where it reads none."""
        self._loop = loop
        self._draft_files_status = draft_files_status
        self._identity = identity
        self._latency = Latency(
            model_name=identity.model_name, engine=identity.engine, max_model_len=target.max_model_len
        )
        self._card = ModelCard(
            tokenizer=target.tokenizer,
            vocab_size=target.vocab_size,
            max_model_len=target.max_model_len,
            max_sequences=target.runner.num_slots + max_waiting,
            fingerprint=target.fingerprint,
            created=int(time.time()),
        )

    async def card(self) -> ModelCard:
        """See Backend."""
        return self._card

    async def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Outcome]:
        """See Backend. What several sequences decide in one step comes as one item."""
        decided: asyncio.Queue[Verdict | Refusal] = asyncio.Queue()
        tasks = [asyncio.create_task(self._follow(request, decided)) for request in requests]
        unfinished = len(tasks)
        try:
            while unfinished:
                items = [await decided.get()]
                while not decided.empty():
                    items.append(decided.get_nowait())
                for item in items:
                    if isinstance(item, Refusal):
                        yield item
                        return
                verdicts = tuple(item for item in items if isinstance(item, Verdict))
                unfinished -= sum(verdict.finish is not None for verdict in verdicts)
                yield verdicts
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def metrics(self) -> list[list[Metric]]:
        """See Backend."""
        identity = self._identity
        families = engine_families(
            self._loop.stats(),
            model_name=identity.model_name,
            engine=identity.engine,
            num_spec_tokens=identity.num_spec_tokens,
        )
        status = None if self._draft_files_status is None else await self._draft_files_status()
        if status is not None:
            families += drafter_families(status, model_name=identity.model_name, engine=identity.engine)
        return [families + self._latency.families()]

    async def probe(self) -> Speculation | Refusal:
        """See Backend. Whoever's token comes first counts: behind long answers the probe's own would have to wait."""
        before = self._loop.stats().generation_tokens
        own = asyncio.create_task(self._decode_one())
        try:
            while not own.done() and self._loop.stats().generation_tokens == before:
                await asyncio.wait({own}, timeout=LOOK_EVERY_S)
            refusal = own.result() if own.done() else None
        finally:
            own.cancel()
            await asyncio.gather(own, return_exceptions=True)
        return refusal or self._speculation()

    def _speculation(self) -> Speculation:
        status = self._loop.stats().drafter
        if self._identity.method is None or status is None:
            return Speculation()
        return Speculation(method=self._identity.method, up=status.up, reason=status.reason)

    def check_health(self) -> None:
        """Raises where the engine's thread is dead or stuck, so that its supervisor replaces the process."""
        self._loop.check_health()

    def shutdown(self) -> None:
        """Ends the engine; idempotent."""
        self._loop.shutdown()

    async def _decode_one(self) -> Refusal | None:
        """A token of nobody's request, in nobody's latency. None once it came; without room to wait, it never comes."""
        params = SamplingParams(temperature=0, max_tokens=1, seed=0, ignore_eos=True)
        # Token 0 exists in every vocabulary, and one token of prompt costs least.
        request = Request(request_id=f"probe-{uuid.uuid4().hex}", prompt_ids=(0,), params=params)
        try:
            async for verdict in self._loop.generate(request):
                if verdict.error is not None:
                    return Refusal(status=500, message=verdict.error)
        except QueueFullError:
            await asyncio.Event().wait()
        except RuntimeError as error:
            return Refusal(status=500, message=str(error))
        return None

    async def _follow(self, request: Request, decided: asyncio.Queue[Verdict | Refusal]) -> None:
        clock = self._latency.clock(request)
        try:
            async for verdict in self._loop.generate(request):
                clock.tick(verdict)
                decided.put_nowait(verdict)
        except QueueFullError as error:
            decided.put_nowait(Refusal(status=429, message=str(error), retry_after_s=error.retry_after_s))
        except ValueError as error:
            decided.put_nowait(Refusal(status=400, message=str(error)))
        except Exception as error:  # the caller waits on the queue, and must hear of any failure
            logger.exception("the engine failed on %s", request.request_id)
            decided.put_nowait(Refusal(status=500, message=f"the engine failed: {type(error).__name__}"))
