"""The benchmarks of draft files, each to its end on little: what is counted is right; speed is not looked at."""

from __future__ import annotations

import importlib
import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.harness.filed_session import FiledSession
from benchmarks.harness.hit_tables import Answered, HitTables, speed_ratio
from benchmarks.harness.options import make_parser, read_options
from benchmarks.harness.prompts import Prompt
from benchmarks.harness.ranking_scores import (
    Candidate,
    Judged,
    agreeing,
    best_score,
    by_match,
    by_similarity,
    f1_bounds,
    most_similar_first,
    score,
)
from benchmarks.harness.repeating import Kind, Visit
from benchmarks.harness.report import Report
from benchmarks.harness.session import Run
from benchmarks.harness.synthetic_prefixes import GRAM, SHARED, Asked, Stream, asked_prefixes
from protos.speculation_counts import SpeculationCounts
from verifier.engine_stats import EngineStats


def run(name: str, out: Path, *arguments: str) -> dict[str, Any]:
    command = ["--quick", "--out", str(out), "--threads", "1", *arguments]
    assert importlib.import_module(f"benchmarks.{name}").main(command) == 0
    written: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    rows = [row for section in written["sections"].values() for row in section]
    assert rows
    assert all(math.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))
    return written


def test_cache_lookup_asks_every_kind_everywhere(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    sections = run("cache_lookup", tmp_path / "out", "--directory", str(store), "--model", "none")["sections"]
    inserted, opening, look_ups = sections.values()
    assert [row["prefixes"] for row in inserted] == [300, 600]
    assert len(opening) == 2 * 2
    assert len(look_ups) == 2 * 4 * len(Asked)
    for row in look_ups:
        assert row["found"] == (0 if row["asked for"] == Asked.NOTHING else 1)
        assert 0 < row["p50"] <= row["p99"] <= row["most"]
    assert not list(store.iterdir())  # nothing is left behind


def test_cache_lookup_refuses_a_limit_below_all_sizes(tmp_path: Path) -> None:
    module = importlib.import_module("benchmarks.cache_lookup")
    with pytest.raises(ValueError, match="--limit 99 leaves no size; the smallest is 10000"):
        module.main(["--limit", "99", "--out", str(tmp_path)])


def test_synthetic_prefixes_share_what_their_kind_says() -> None:
    stream = Stream(2000)
    assert len(stream) == 2000
    ends = {stream.prefix(number).tokens[-SHARED:] for number in range(2000)}
    digests = {stream.prefix(number).digest for number in range(2000)}
    assert len(digests) == 2000
    common = stream.commonest_end(2000)
    assert sum(stream.prefix(number).tokens[-GRAM:] == common for number in range(2000)) > 20
    for kind in Asked:
        for prefix in asked_prefixes(stream, 2000, kind, 10):
            assert (prefix.digest in digests) == (kind is Asked.STORED)
            assert (prefix.tokens[-SHARED:] in ends) == (kind in {Asked.STORED, Asked.ALIKE, Asked.ALIKE_BARE})
            assert (prefix.feature is None) == (kind in {Asked.ALIKE_BARE, Asked.CROWDED_BARE})
    assert all(prefix.tokens[-GRAM:] == common for prefix in asked_prefixes(stream, 2000, Asked.CROWDED, 10))


def test_a_stream_is_the_same_every_time() -> None:
    one, other = Stream(1000), Stream(1000)
    (first, *_), (second, *_) = (each.continuations(990, 1000, together=5) for each in (one, other))
    for mine, yours in zip(first, second, strict=True):
        assert (mine.tokens, mine.prefix.tokens, mine.prefix.digest) == (
            yours.tokens, yours.prefix.tokens, yours.prefix.digest,
        )  # fmt: skip
        assert mine.prefix.feature is not None
        assert np.array_equal(mine.prefix.feature, yours.prefix.feature)


def answered(ms: float, tokens: tuple[int, ...] = (1, 2), stored_ms: float = 0.0) -> Answered:
    prompt = Prompt(id="0", kind="support", prompt="Why?")
    stats = EngineStats(generation_tokens=len(tokens), steps=1, draft_seconds=0.001)
    run = Run(
        answers=(tokens,), seconds=ms / 1e3, stats=stats, speculation=SpeculationCounts(), verifications=1, rounds=(),
    )  # fmt: skip
    return Answered(
        visit=Visit(kind=Kind.SAME, prompt=prompt, temperature=0.0, seed=0), run=run, stored_ms=stored_ms,
    )  # fmt: skip


def hit_tables() -> tuple[HitTables, Report]:
    report = Report(read_options(make_parser("cache_hits", "test"), ["--quick"], rounds=1))
    return HitTables(report, {"cached": "none", "suffix+cached": "suffix"}), report


def test_the_tables_count_what_it_takes_to_store() -> None:
    tables, report = hit_tables()
    tables.add("t", {}, {"none": [answered(10), answered(30)], "cached": [answered(6, stored_ms=2), answered(12)]})
    (_, row) = report.sections["t"]
    assert (row["visits"], row["tokens/verification"], row["ms/token"], row["storing"]) == (2, 2.0, 5.0, 0.5)
    assert row["draft ms/step"] == 1.0
    assert row["over none"] == row["over no files"] == 2.0
    low, high = row["95 %"]
    assert 1.25 <= low < 2.0 < high <= 2.5  # those of either visit alone


def test_a_differing_answer_is_a_failure() -> None:
    tables, report = hit_tables()
    tables.compare({"repeats %": 20}, {"none": [answered(1)], "suffix": [answered(1)]})
    assert (tables.differing, report.notes) == (0, [])
    tables.compare({"repeats %": 20}, {"none": [answered(1)], "suffix": [answered(1, (1, 3))]})
    assert tables.differing == 1
    assert "FAILED: 1 of 1 answers of suffix differ" in report.notes[0]


def test_equal_times_have_a_ratio_of_one_for_sure() -> None:
    assert speed_ratio([3.0, 4.0], [3.0, 4.0]) == (1.0, 1.0, 1.0)


def test_cache_hits_answers_every_visit_with_every_drafter(tmp_path: Path) -> None:
    sections = run("cache_hits", tmp_path)["sections"]
    inserted, shares, kinds, look_ups, opening = sections.values()
    drafters = {"none", "suffix", "cached", "suffix+cached"}
    assert {(row["repeats %"], row["drafter"]) for row in shares} == {(n, name) for n in (0, 60) for name in drafters}
    assert all(row["visits"] == 5 for row in shares)
    by_kind = {row["kind"]: row["visits"] for row in kinds}
    assert by_kind == {"fresh": 7, "same": 1, "sampled again": 1, "reworded": 1}
    filed = {"cached", "suffix+cached"}
    for rows in (inserted, look_ups, opening):
        assert {row["drafter"] for row in rows} == filed
    assert all(("over no files" in row) == (row["drafter"] in filed) for row in shares)
    assert all(row["look-ups"] > 0 and row["found"] > 0 for row in look_ups)
    assert all(row["prefixes"] > 60 for row in opening)
    # Asked word for word again, without chance: nothing but the answer that is on file.
    same = {row["drafter"]: row["tokens/verification"] for row in kinds if row["kind"] == "same"}
    assert same["cached"] > 2 * same["none"] == 2


def test_after_a_restart_draft_files_know_the_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[FiledSession] = []
    leave = FiledSession.__exit__
    monkeypatch.setattr(FiledSession, "__exit__", lambda session, *error: (ended.append(session), leave(session)))
    sections = run("cache_hits", tmp_path, "--restart", "--drafters", "cached")["sections"]
    kinds = sections["by kind of repeat, bf16"]
    same = {row["drafter"]: row["tokens/verification"] for row in kinds if row["kind"] == "same"}
    assert same["cached"] > 2 * same["none"] == 2
    assert len(set(ended)) == 2 * len(same)


def test_cache_hits_ends_with_1_where_an_answer_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = FiledSession.run

    def wrong(self: FiledSession, *given: Any, **more: Any) -> tuple[Run, float]:
        run, stored_ms = asked(self, *given, **more)
        return (replace(run, answers=((0,),)) if self.pretriever else run), stored_ms

    monkeypatch.setattr(FiledSession, "run", wrong)
    command = ["--quick", "--out", str(tmp_path), "--threads", "1", "--drafters", "cached"]
    assert importlib.import_module("benchmarks.cache_hits").main(command) == 1


def test_ranking_compares_all_ways(tmp_path: Path) -> None:
    best, thresholds, kinds = run("ranking", tmp_path)["sections"].values()
    ways = {"n-grams", "vectors", "both, longest match first", "both, most similar first"}
    features = {f"layer {layer}, {pooling}" for layer in (0, 1) for pooling in ("last", "recent", "mean")}
    assert {(row["by"], row["feature"]) for row in best} == {
        ("n-grams", "-"), *product(ways - {"n-grams"}, features),
    }  # fmt: skip
    assert {row["by"] for row in thresholds} == {row["by"] for row in kinds} == ways
    assert {row["kind"] for row in kinds} == {"reworded", "fresh"}
    assert all(0 <= row["F1, 95 %"][0] <= row["F1, 95 %"][1] <= 1 for row in best)
    assert all(row["possible"] <= row["questions"] for row in kinds)


def test_ranking_refuses_a_layer_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("benchmarks.ranking")
    monkeypatch.setattr(module, "_layers", lambda options: [0, 2])
    with pytest.raises(ValueError, match="--layers 2: the target has layers 0 to 1"):
        module.main(["--quick", "--out", str(tmp_path), "--threads", "1"])


def judged(*candidates: tuple[int, float, int], possible: bool = True, text: int = 0) -> Judged:
    made = (Candidate(match_length=length, similarity=cosine, agreed=agreed) for length, cosine, agreed in candidates)
    return Judged(text=text, kind="reworded", candidates=tuple(made), possible=possible)


QUESTIONS = [
    judged((8, 0.5, 0), (4, 0.9, 20), text=0),  # right by cosine, wrong by length
    judged((16, 0.8, 5), text=1),
    judged((4, 0.3, 3), possible=False, text=2),
    judged(possible=True, text=3),
]


def test_scores_are_of_the_first_candidate_above_the_threshold() -> None:
    by_length = score(QUESTIONS, by_match, 4)
    assert (by_length.found, by_length.precision, by_length.recall) == (3, 1 / 3, 1 / 3)
    assert by_length.accepted == (0 + 5 + 3) / 4
    assert score(QUESTIONS, by_match, 16).precision == 1.0
    by_cosine = score(most_similar_first(QUESTIONS), by_similarity, 0.6)
    assert (by_cosine.found, by_cosine.precision, by_cosine.recall) == (2, 1.0, 2 / 3)
    assert by_cosine.f1 == pytest.approx(0.8)
    assert by_cosine.accepted == (16 + 5) / 4
    assert score(QUESTIONS, by_similarity, 0.99).f1 == 0


def test_the_best_threshold_is_the_lowest_of_the_best() -> None:
    best = best_score(most_similar_first(QUESTIONS), by_similarity, (0.99, 0.6, 0.4, 0.1))
    assert best.threshold == 0.4
    low, high = f1_bounds(most_similar_first(QUESTIONS), by_similarity, 0.4)
    assert 0 <= low < best.f1 < high <= 1


def test_agreeing_counts_first_tokens() -> None:
    assert agreeing((1, 2, 3), (1, 2, 4)) == 2
    assert agreeing((1, 2), (1, 2, 3)) == 2
    assert agreeing((5,), (1, 2)) == 0
