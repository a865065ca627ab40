"""ranking: how often what draft files find is right: n-grams, vectors and both; by pooling, layer and threshold."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

from benchmarks.harness.loading import load, open_session
from benchmarks.harness.options import Options, make_parser, read_options
from benchmarks.harness.ranking_scores import (
    RIGHT,
    Candidate,
    Judged,
    Measure,
    Score,
    agreeing,
    best_score,
    by_match,
    by_similarity,
    f1_bounds,
    most_similar_first,
    score,
)
from benchmarks.harness.repeating import Kind, Visit, fresh_visits, make_workload, reworded_visits
from benchmarks.harness.report import Report
from benchmarks.harness.stated_texts import TOGETHER, StatedText, write_texts
from cache_service.search.pretriever import Pretriever
from cache_service.search.shelf_index import Stages
from cache_service.storage.store import Store
from protos.draft_files import Continuation, Question

POOLINGS = ("last", "recent", "mean")
COSINES = (-1.0, *(i / 20 for i in range(18)), *(i / 100 for i in range(90, 100)), 0.995, 0.998)
LENGTHS = (4.0, 8.0, 16.0, 32.0)
MOST = 64  # candidates, all of which are looked at
BUDGET_BYTES = 2**28


@dataclass(frozen=True, kw_only=True)
class Search:
    """One way to find prefixes, and what its threshold is of. feature: "-" where it looks at none."""

    way: str
    feature: str
    measure: Measure
    thresholds: tuple[float, ...]
    questions: Sequence[Judged]

    @cached_property
    def best(self) -> Score:
        """By F1."""
        return best_score(self.questions, self.measure, self.thresholds)


def main(argv: Sequence[str] | None = None) -> int:
    """The target answers past and held-out prompts once; everything else is counted on those texts."""
    options = read_options(_parser(), argv, rounds=1)
    report = Report(options)
    for dtype in options.dtypes:
        stored, asked = _texts(options, dtype)
        searches = list(_searches(options, stored, asked))
        _add_best(report, dtype, searches)
        for search in _best_of_each_way(searches):
            _add_sweep(report, dtype, search)
            _add_kinds(report, dtype, search)
    report.finish()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("ranking", __doc__)
    parser.set_defaults(dtypes=["bf16"])
    parser.add_argument("--layers", nargs="+", type=int, default=[10, 20, 29], help="whose states are compared")
    parser.add_argument("--fresh", type=int, default=30, help="held-out prompts that are like none of the past")
    parser.add_argument("--max-tokens", type=int, default=64)
    return parser


def _texts(options: Options, dtype: str) -> tuple[list[StatedText], list[StatedText]]:
    """Those that are stored, and those that are asked about."""
    target = load(options, dtype, slots=TOGETHER)
    layers = _layers(options)
    wrong = [layer for layer in layers if not 0 <= layer < target.config.num_hidden_layers]
    if wrong:
        raise ValueError(f"--layers {wrong[0]}: the target has layers 0 to {target.config.num_hidden_layers - 1}")
    past, held_out = make_workload((), 0).past, _held_out(options)
    if options.quick:
        past, held_out = past[:6], [*held_out[:6], *held_out[-6:]]
    max_tokens = 24 if options.quick else options.extra.max_tokens
    visits = [*past, *held_out]
    texts = write_texts(target, open_session(target), visits, layers, max_tokens=max_tokens)
    return texts[: len(past)], texts[len(past) :]


def _layers(options: Options) -> list[int]:
    return [0, 1] if options.quick else list(options.extra.layers)


def _held_out(options: Options) -> list[Visit]:
    """What is like the past: in other words or with other slots, or sampled again; and what is not."""
    again = [visit for visit in make_workload((), 0).past if visit.kind is Kind.SAMPLED]
    return [*reworded_visits(), *again, *fresh_visits()[: options.extra.fresh]]


def _searches(options: Options, stored: Sequence[StatedText], asked: Sequence[StatedText]) -> Iterator[Search]:
    """All ways. N-grams look at no features, so those of one kind are as good as those of another."""
    for number, (layer, pooling) in enumerate(product(_layers(options), POOLINGS)):
        feature = f"layer {layer}, {pooling}"
        with tempfile.TemporaryDirectory(prefix="draft-files-") as folder:
            judged = _judged(Path(folder), stored, asked, layer=layer, pooling=pooling)
        if number == 0:
            yield Search(
                way="n-grams", feature="-", measure=by_match, thresholds=LENGTHS, questions=judged[Stages.NGRAMS]
            )
        both, vectors = judged[Stages.BOTH], most_similar_first(judged[Stages.VECTORS])
        for way, questions in (
            ("vectors", vectors),
            ("both, longest match first", both),
            ("both, most similar first", most_similar_first(both)),
        ):
            yield Search(way=way, feature=feature, measure=by_similarity, thresholds=COSINES, questions=questions)


def _judged(
    folder: Path, stored: Sequence[StatedText], asked: Sequence[StatedText], *, layer: int, pooling: str
) -> dict[Stages, list[Judged]]:
    """Every place of every text asked about, searched for in the stored ones by a real pretriever."""
    kept = [each for text in stored for each in text.continuations(layer, pooling)]
    beginnings = {each.tokens[:RIGHT] for each in kept}
    places = [(number, each) for number, text in enumerate(asked) for each in text.continuations(layer, pooling)]
    judged: dict[Stages, list[Judged]] = {}
    with Store.open(folder, budget_bytes=BUDGET_BYTES) as store:
        with closing(Pretriever(store, min_similarity=-1)) as pretriever:
            pretriever.add(kept)
        for stages in Stages:
            searching = Pretriever(store, min_similarity=-1, max_candidates=MOST, max_hits=MOST, stages=stages)
            with closing(searching):
                judged[stages] = [
                    Judged(
                        text=number,
                        kind=asked[number].visit.kind.value,
                        candidates=_candidates(searching, place),
                        possible=place.tokens[:RIGHT] in beginnings,
                    )
                    for number, place in places
                ]
    return judged


def _candidates(pretriever: Pretriever, place: Continuation) -> tuple[Candidate, ...]:
    (findings,) = pretriever.look_up([Question(request_id="", namespace=place.namespace, prefix=place.prefix)])
    return tuple(
        Candidate(
            match_length=hit.match_length,
            similarity=-1.0 if hit.similarity is None else hit.similarity,
            agreed=agreeing(hit.paths[0].tokens, place.tokens),
        )
        for hit in findings.hits
    )


def _add_best(report: Report, dtype: str, searches: Sequence[Search]) -> None:
    for search in searches:
        row = {"dtype": dtype, "by": search.way, "feature": search.feature, "questions": len(search.questions)}
        bounds = f1_bounds(search.questions, search.measure, search.best.threshold)
        anyhow = score(search.questions, search.measure, search.thresholds[0]).accepted
        scored = asdict(search.best) | {"F1, 95 %": bounds, "accepted without threshold": anyhow}
        report.add("the best threshold of each, by F1", row | scored)


def _best_of_each_way(searches: Sequence[Search]) -> list[Search]:
    """With the feature whose best F1 is the highest."""
    ways = dict.fromkeys(search.way for search in searches)
    return [max((one for one in searches if one.way == way), key=lambda one: one.best.f1) for way in ways]


def _add_sweep(report: Report, dtype: str, search: Search) -> None:
    """The thresholds above which less is found than above the one before."""
    found = -1
    for threshold in search.thresholds:
        scored = score(search.questions, search.measure, threshold)
        if scored.found != found:
            row = {"dtype": dtype, "by": search.way, "feature": search.feature}
            report.add("thresholds, best feature", row | asdict(scored))
        found = scored.found


def _add_kinds(report: Report, dtype: str, search: Search) -> None:
    for kind in dict.fromkeys(each.kind for each in search.questions):
        own = [each for each in search.questions if each.kind == kind]
        row = {"dtype": dtype, "by": search.way, "feature": search.feature, "kind": kind, "questions": len(own)}
        possible = {"possible": sum(each.possible for each in own)}
        scored = asdict(score(own, search.measure, search.best.threshold))
        report.add("by kind of text, best feature and threshold", row | possible | scored)


if __name__ == "__main__":
    raise SystemExit(main())
