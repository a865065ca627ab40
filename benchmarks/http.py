"""http: what HTTP, Serve and streaming add to the first token and to every further one, over the engine alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from benchmarks.harness.loading import load, open_session
from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.prompts import Prompt, load_prompts
from benchmarks.harness.report import Report
from benchmarks.harness.server import Server
from benchmarks.harness.session import Session
from benchmarks.harness.trials import Samples
from modeling.target import Target
from protos.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Of one answer, in ms: until its first text, and from there to its end for each further token."""

    first: float
    per_token: float


Ask = Callable[[Prompt], Times]


def main(argv: Sequence[str] | None = None) -> int:
    """The same prompts to both in turns, one request at a time, no speculation, the same threads."""
    parser = make_parser("http", __doc__)
    parser.add_argument("--prompts", type=int, default=8)
    options = read_options(parser, argv, rounds=3)
    report = Report(options)
    max_tokens = 8 if options.quick else 64
    count = 2 if options.quick else options.extra.prompts
    for dtype in options.dtypes:
        target = load(options, dtype, slots=4)
        engine = _Engine(open_session(target), target, max_tokens)
        sizes = ("--dtype", dtype, "--threads", str(options.threads), "--max-num-seqs", "4")
        with (
            Server(options.model, *sizes, "--speculative-config", "none") as server,
            httpx.Client(base_url=server.url, timeout=300) as client,
        ):
            asked = _Endpoint(client, options.model, max_tokens)
            direct, served = _in_turns(options, engine, asked, count)
        _add(report, dtype, direct, served)
    report.finish()
    return 0


def _in_turns(options: Options, engine: Ask, endpoint: Ask, count: int) -> tuple[list[Times], list[Times]]:
    prompts = load_prompts("questions", count)
    direct: list[Times] = []
    served: list[Times] = []
    for round_ in range(-1, options.rounds):
        for i, prompt in enumerate(prompts):
            # Its own first words keep the server's prefix cache out of the comparison.
            fresh = Prompt(id=prompt.id, kind=prompt.kind, prompt=f"Question {round_ + 2}.{i}: {prompt.prompt}")
            sides = ((engine, direct), (endpoint, served))
            for ask, times in sides if (i + round_) % 2 == 0 else reversed(sides):
                answer = ask(fresh)
                if round_ >= 0:
                    times.append(answer)
    return direct, served


class _Engine:
    """Asks the engine in this process."""

    def __init__(self, session: Session, target: Target, max_tokens: int) -> None:
        self._session, self._tokenizer = session, target.tokenizer
        self._params = SamplingParams(temperature=0, max_tokens=max_tokens, min_tokens=max_tokens, seed=0)

    def __call__(self, prompt: Prompt) -> Times:
        ids = prompt.encode(self._tokenizer)
        start = time.perf_counter()
        first = 0.0
        for verdict in self._session.stream(ids, self._params):
            if verdict.text and not first:
                first = time.perf_counter()
        return _times(start, first, time.perf_counter(), self._params.min_tokens)


class _Endpoint:
    """Asks the server, streaming, over one kept connection."""

    def __init__(self, client: httpx.Client, model: str, max_tokens: int) -> None:
        self._client, self._model, self._max_tokens = client, model, max_tokens

    def __call__(self, prompt: Prompt) -> Times:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt.prompt}],
            "temperature": 0,
            "max_tokens": self._max_tokens,
            "min_tokens": self._max_tokens,
            "stream": True,
        }
        first = 0.0
        start = time.perf_counter()
        with self._client.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != 200:
                raise RuntimeError(f"HTTP {response.status_code}: {response.read().decode()}")
            for line in response.iter_lines():
                if not first and _has_text(line):
                    first = time.perf_counter()
        return _times(start, first, time.perf_counter(), self._max_tokens)


def _has_text(line: str) -> bool:
    data = line.removeprefix("data: ")
    if data in {"", "[DONE]", line}:
        return False
    return any(choice["delta"].get("content") for choice in json.loads(data)["choices"])


def _times(start: float, first: float, end: float, tokens: int) -> Times:
    if not first:
        raise RuntimeError("an answer came without any text")
    return Times(first=(first - start) * 1e3, per_token=(end - first) / (tokens - 1) * 1e3)


def _add(report: Report, dtype: str, direct: Sequence[Times], served: Sequence[Times]) -> None:
    for what in ("first", "per_token"):
        alone = Samples(values=tuple(getattr(times, what) for times in direct))
        through = Samples(values=tuple(getattr(times, what) for times in served))
        added = Samples(values=tuple(b - a for a, b in zip(alone.values, through.values, strict=True)))
        row: dict[str, object] = {"dtype": dtype, "ms": what.replace("_", " ")}
        for percent in (50, 99):
            row |= {
                f"engine p{percent}": alone.percentile(percent),
                f"http p{percent}": through.percentile(percent),
                f"added p{percent}": added.percentile(percent),
            }
        report.add("what HTTP adds, ms", row | {"answers": len(direct)})


if __name__ == "__main__":
    raise SystemExit(main())
