"""peers: the same weights and prompts through us and other engines, interleaved, each in a process of its own."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from transformers import AutoTokenizer

from benchmarks.harness.baseline import weights_dir
from benchmarks.harness.contestant import Contestant, Entry
from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.prompts import load_prompts
from benchmarks.harness.report import Report
from benchmarks.harness.trials import Samples, interleave
from protos.messages import Tokens

SUFFIX = {"method": "suffix", "num_speculative_tokens": 8}
LOOKUP_TOKENS = 5
REFERENCE = "transformers"


def main(argv: Sequence[str] | None = None) -> int:
    """Races whoever is installed; says who is not and how to bring him."""
    options = read_options(_parser(), argv, rounds=3)
    report = Report(options)
    model = weights_dir(options.model)
    tokenizer = AutoTokenizer.from_pretrained(model)
    limit, max_tokens = (2, 8) if options.quick else (options.extra.limit, options.extra.max_tokens)
    prompts = [prompt.encode(tokenizer) for prompt in load_prompts(options.extra.set, limit)]
    for dtype in options.dtypes:
        entries = list(_entries(options, model, dtype, report))
        _race(report, options, entries, dtype, _Question(prompts, max_tokens))
    report.finish()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("peers", __doc__)
    parser.add_argument("--set", default="mixed")
    parser.add_argument("--limit", type=int, default=16, help="prompts")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--together", type=int, default=8, help="requests at a time, in the race after the one alone")
    parser.add_argument("--assistant", help="folder of a draft model for transformers' assisted generation")
    for name, what in (
        ("vllm-python", "Python that has vllm"),
        ("openvino-python", "Python that has openvino-genai"),
        ("openvino-model", "the same weights, exported for OpenVINO"),
        ("llama-server", "llama.cpp's server program"),
        ("llama-gguf-fp32", "the same weights as GGUF, in fp32"),
        ("llama-gguf-bf16", "the same weights as GGUF, in bf16"),
    ):
        variable = f"PARADRAFT_{name.upper().replace('-', '_')}"
        parser.add_argument(f"--{name}", default=os.environ.get(variable), help=f"{what} (or ${variable})")
    return parser


def _entries(options: Options, model: str, dtype: str, report: Report) -> Iterator[Entry]:
    ours, extra = sys.executable, options.extra
    lookup = {"prompt_lookup_num_tokens": LOOKUP_TOKENS}
    yield Entry(name=REFERENCE, worker="transformers_worker", python=ours, model=model)
    yield Entry(
        name="transformers prompt lookup", worker="transformers_worker", python=ours, model=model,
        options=lookup, batched=False,
    )  # fmt: skip
    if extra.assistant:
        yield Entry(
            name="transformers assisted", worker="transformers_worker", python=ours, model=model,
            options={"assistant": extra.assistant}, batched=False,
        )  # fmt: skip
    else:
        report.note("transformers assisted did not run: no --assistant folder")
    yield Entry(name="paradraft", worker="paradraft_worker", python=ours, model=model)
    yield Entry(name="paradraft suffix", worker="paradraft_worker", python=ours, model=model, options=SUFFIX)
    yield from _installed_elsewhere(extra, model, dtype, report)


def _installed_elsewhere(extra: argparse.Namespace, model: str, dtype: str, report: Report) -> Iterator[Entry]:
    ngram = {"method": "ngram", "num_speculative_tokens": LOOKUP_TOKENS, "prompt_lookup_max": 3}
    if _given(report, "vLLM", {"--vllm-python": extra.vllm_python}):
        python = extra.vllm_python
        yield Entry(name="vllm", worker="vllm_worker", python=python, model=model)
        yield Entry(
            name="vllm ngram", worker="vllm_worker", python=python, model=model, options={"speculative_config": ngram}
        )
    needed = {"--openvino-python": extra.openvino_python, "--openvino-model": extra.openvino_model}
    if _given(report, "OpenVINO GenAI", needed):
        python, folder = extra.openvino_python, extra.openvino_model
        yield Entry(name="openvino", worker="openvino_worker", python=python, model=folder)
        options = {"prompt_lookup": LOOKUP_TOKENS}
        yield Entry(
            name="openvino prompt lookup", worker="openvino_worker", python=python, model=folder, options=options
        )
    gguf = extra.llama_gguf_fp32 if dtype == "fp32" else extra.llama_gguf_bf16
    if _given(report, f"llama.cpp {dtype}", {"--llama-server": extra.llama_server, f"--llama-gguf-{dtype}": gguf}):
        program = {"server": extra.llama_server}
        yield Entry(name="llama.cpp", worker="llama_worker", python=sys.executable, model=gguf, options=program)


def _given(report: Report, engine: str, needed: Mapping[str, str | None]) -> bool:
    missing = [f"{flag} {path or 'is not given'}" for flag, path in needed.items() if not Path(path or " ").exists()]
    if missing:
        report.note(f"{engine} did not run, for want of: {', '.join(missing)}")
    return not missing


class _Question:
    """What is asked of everybody. `answers` keeps the last ones by contestant and concurrency."""

    def __init__(self, prompts: Sequence[Tokens], max_tokens: int) -> None:
        self._prompts, self._max_tokens = prompts, max_tokens
        self.answers: dict[tuple[str, int], list[Tokens]] = {}

    def ask(self, contestant: Contestant, concurrency: int) -> float:
        """Tokens per second."""
        seconds, answers = contestant.ask(self._prompts, concurrency=concurrency, max_tokens=self._max_tokens)
        self.answers[contestant.entry.name, concurrency] = answers
        return sum(len(answer) for answer in answers) / seconds


def _race(report: Report, options: Options, entries: Sequence[Entry], dtype: str, question: _Question) -> None:
    together = options.extra.together
    with ExitStack() as stack:
        running = []
        for entry in entries:
            try:
                contestant = Contestant(entry, dtype=dtype, threads=options.threads, concurrency=together)
            except RuntimeError as error:
                report.note(f"{entry.name} did not start: {error}")
                continue
            stack.callback(contestant.close)
            running.append(contestant)
        for concurrency in (1, together):
            able = [contestant for contestant in running if concurrency == 1 or contestant.entry.batched]
            trials = {c.entry.name: lambda c=c, n=concurrency: question.ask(c, n) for c in able}
            speeds = interleave(trials, rounds=options.rounds)
            _add(report, {"dtype": dtype, "at a time": concurrency}, speeds, question)


def _add(report: Report, where: dict[str, object], speeds: Mapping[str, Samples], question: _Question) -> None:
    reference = question.answers[REFERENCE, 1]
    for name, speed in speeds.items():
        answers = question.answers[name, int(str(where["at a time"]))]
        ratio = speed.over(speeds[REFERENCE])
        row = {
            "engine": name,
            "tokens/s": speed.median,
            "spread": speed.spread,
            "over transformers": ratio.median,
            "same answers": sum(a == b for a, b in zip(answers, reference, strict=True)),
            "of": len(reference),
        }
        report.add("tokens per second, greedy, fixed length", where | row)


if __name__ == "__main__":
    raise SystemExit(main())
