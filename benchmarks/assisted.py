"""assisted: transformers' assisted generation and prompt lookup against its plain generate and against ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from benchmarks.harness.baseline import Baseline, load_assistant
from benchmarks.harness.drafting import LENGTH, named_config
from benchmarks.harness.held_out import DOMAINS, domain_prompts
from benchmarks.harness.loading import load, open_session
from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.report import Report
from benchmarks.harness.session import Session
from benchmarks.harness.trials import Samples, interleave
from drafters.shipped import shipped_weights
from modeling.target import Target
from protos.messages import Tokens
from protos.sampling_params import SamplingParams

REFERENCE = "transformers"
METHODS = ("suffix", "draft_model", "dspark")
Answer = Callable[[Tokens], Tokens]


def main(argv: Sequence[str] | None = None) -> int:
    """One prompt at a time, greedy, a fixed number of tokens; everybody answers it before the next one comes."""
    parser = make_parser("assisted", __doc__)
    parser.add_argument("--assistant", help="folder of a draft model (default: the one that ships for the target)")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), metavar="NAME|JSON", help="our drafters")
    parser.add_argument("--domains", nargs="+", choices=tuple(DOMAINS), default=list(DOMAINS))
    parser.add_argument("--prompts-per-domain", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=64)
    options = read_options(parser, argv, rounds=1)
    assistant = _assistant(options)
    report = Report(options)
    for dtype in options.dtypes:
        target = load(options, dtype, slots=1)
        answers = _theirs(options, dtype, assistant) | _ours(options, target)
        for domain in options.extra.domains:
            count = 1 if options.quick else options.extra.prompts_per_domain
            prompts = [prompt.encode(target.tokenizer) for prompt in domain_prompts(domain, count)]
            _race(options, report, answers, {"dtype": dtype, "domain": domain}, prompts)
    report.finish()
    return 0


def _assistant(options: Options) -> str:
    if options.extra.assistant:
        return str(options.extra.assistant)
    shipped = shipped_weights(options.model).get("draft_model")
    if shipped is None:
        raise ValueError(
            f"no draft model comes with paradraft for target {options.model!r}; give the folder of one by --assistant"
        )
    return str(shipped)


def _theirs(options: Options, dtype: str, assistant: str) -> dict[str, Answer]:
    """Drafts of LENGTH tokens as ours, and as long as transformers itself would have them."""
    fixed = load_assistant(assistant, dtype, num_tokens=LENGTH)
    free = load_assistant(assistant, dtype)
    baselines = {
        REFERENCE: Baseline(options.model, dtype),
        "transformers prompt lookup": Baseline(options.model, dtype, {"prompt_lookup_num_tokens": LENGTH}),
        f"transformers assisted, {LENGTH}": Baseline(options.model, dtype, {"assistant_model": fixed}),
        "transformers assisted, its own length": Baseline(options.model, dtype, {"assistant_model": free}),
    }
    return {name: _asking(baseline, _max_tokens(options)) for name, baseline in baselines.items()}


def _asking(baseline: Baseline, max_tokens: int) -> Answer:
    return lambda prompt: baseline.generate([prompt], max_tokens=max_tokens)[0]


def _ours(options: Options, target: Target) -> dict[str, Answer]:
    configs = dict(named_config(each) for each in options.extra.methods)
    sessions = {"paradraft": open_session(target)}
    sessions |= {f"paradraft {name}": open_session(target, config) for name, config in configs.items()}
    params = SamplingParams(temperature=0, max_tokens=_max_tokens(options), ignore_eos=True, seed=0)
    return {name: _answering(session, params) for name, session in sessions.items()}


def _answering(session: Session, params: SamplingParams) -> Answer:
    return lambda prompt: session.run([prompt], params, concurrency=1).answers[0]


def _max_tokens(options: Options) -> int:
    return 8 if options.quick else int(options.extra.max_tokens)


@dataclass(slots=True)
class _Kept:
    """A trial: tokens per second of an answer to `prompt`; `answers` and `speeds` keep those so far, in order."""

    answer: Answer
    prompt: Tokens = ()
    answers: list[Tokens] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        start = perf_counter()
        tokens = self.answer(self.prompt)
        self.speeds.append(len(tokens) / (perf_counter() - start))
        self.answers.append(tokens)
        return self.speeds[-1]


def _race(
    options: Options, report: Report, answers: dict[str, Answer], where: dict[str, str], prompts: Sequence[Tokens]
) -> None:
    kept = {name: _Kept(answer) for name, answer in answers.items()}
    for number, prompt in enumerate(prompts):
        for each in kept.values():
            each.prompt = prompt
        order = list(kept.items())[:: 1 if number % 2 == 0 else -1]
        interleave(dict(order), rounds=options.rounds, warmup=0)
    _add(report, where, kept)


def _add(report: Report, where: dict[str, str], kept: dict[str, _Kept]) -> None:
    for name, each in kept.items():
        own_plain = kept[REFERENCE if name.startswith(REFERENCE) else "paradraft"]
        row = {
            "engine": name,
            "tokens/s": Samples(values=tuple(each.speeds)).median,
            "over transformers": _ratio(each, kept[REFERENCE]),
            "over its own plain": _ratio(each, own_plain),
            "as transformers": _same(each, kept[REFERENCE]),
            "as its own plain": _same(each, own_plain),
            "of": len(each.answers),
        }
        report.add("tokens per second at one request, and identical answers", where | row)


def _ratio(one: _Kept, other: _Kept) -> float:
    return Samples(values=tuple(one.speeds)).over(Samples(values=tuple(other.speeds))).median


def _same(one: _Kept, other: _Kept) -> int:
    return sum(a == b for a, b in zip(one.answers, other.answers, strict=True))


if __name__ == "__main__":
    raise SystemExit(main())
