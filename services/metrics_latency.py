"""Latency: histograms of one engine's requests under vLLM's names and buckets, and the clock that fills them."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.metrics_core import Metric

from protos.messages import Finish, Request, Verdict
from services.metrics_engine import LABELS

# vLLM's, in seconds.
_FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
_PER_TOKEN = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_REQUEST = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip


class Latency:
    """Histograms of one engine."""

    def __init__(self, *, model_name: str, engine: str, max_model_len: int) -> None:
        self._registry = CollectorRegistry()
        self._labels = (model_name, engine)
        lengths = _one_two_five(max_model_len)
        self.first_token = self._histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", _FIRST_TOKEN)
        self.inter_token = self._histogram(
            "vllm:inter_token_latency_seconds",
            "Time between outputs of a request, each of one token or more.",
            _PER_TOKEN,
        )
        self.per_token = self._histogram(
            "vllm:request_time_per_output_token_seconds", "Mean time per token after the first, by request.", _PER_TOKEN
        )
        self.end_to_end = self._histogram("vllm:e2e_request_latency_seconds", "Arrival to last token.", _REQUEST)
        self.queue = self._histogram("vllm:request_queue_time_seconds", "Arrival to a KV slot.", _REQUEST)
        self.prefill = self._histogram("vllm:request_prefill_time_seconds", "KV slot to first token.", _REQUEST)
        self.decode = self._histogram("vllm:request_decode_time_seconds", "First to last token.", _REQUEST)
        self.prompt_tokens = self._histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", lengths)
        self.generation_tokens = self._histogram("vllm:request_generation_tokens", "Tokens of an answer.", lengths)

    def clock(self, request: Request) -> RequestClock:
        """Starts timing a request."""
        return RequestClock(self, request)

    def families(self) -> list[Metric]:
        """The histograms as they stand."""
        return list(self._registry.collect())

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        histogram = Histogram(name, text, LABELS, buckets=buckets, registry=self._registry)
        return histogram.labels(*self._labels)


class RequestClock:
    """Times one request: tell it every verdict as it comes."""

    def __init__(self, latency: Latency, request: Request) -> None:
        self._latency = latency
        self._prompt_tokens = len(request.prompt_ids)
        self._arrival = time.monotonic()
        self._first: float | None = None
        self._last = self._arrival
        self._tokens = 0

    def tick(self, verdict: Verdict) -> None:
        """Counts a verdict; the finished request goes into the histograms unless it has failed."""
        now = time.monotonic()
        if verdict.tokens:
            if self._first is None:
                self._first = now
                self._latency.first_token.observe(now - self._arrival)
            else:
                self._latency.inter_token.observe(now - self._last)
            self._tokens += len(verdict.tokens)
            self._last = now
        if verdict.finish in {Finish.STOP, Finish.LENGTH}:
            self._finish(now, queued=verdict.stats.queue_seconds)

    def _finish(self, now: float, *, queued: float) -> None:
        latency = self._latency
        decode = 0.0 if self._first is None else self._last - self._first
        latency.end_to_end.observe(now - self._arrival)
        latency.queue.observe(queued)
        latency.prefill.observe(max((self._first or now) - self._arrival - queued, 0.0))
        latency.decode.observe(decode)
        latency.prompt_tokens.observe(self._prompt_tokens)
        latency.generation_tokens.observe(self._tokens)
        if self._tokens > 1:
            latency.per_token.observe(decode / (self._tokens - 1))


def _one_two_five(limit: int) -> tuple[float, ...]:
    steps = (mantissa * 10**exponent for exponent in range(len(str(limit))) for mantissa in (1, 2, 5))
    return tuple(float(step) for step in steps if step <= limit)
