"""The harness: interleaving, ratios, prompts and provenance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.harness.options import make_parser, read_options
from benchmarks.harness.prompts import FOLDER, PROMPT_SETS, held_out_mathematics, load_prompts
from benchmarks.harness.report import Report
from benchmarks.harness.trials import Samples, interleave


def test_cells_take_turns_and_the_order_turns_round() -> None:
    seen: list[str] = []

    def cell(name: str) -> float:
        seen.append(name)
        return float(len(seen))

    measured = interleave({"a": lambda: cell("a"), "b": lambda: cell("b")}, rounds=2, warmup=1)
    assert "".join(seen) == "baabba"
    assert measured["a"].values == (3.0, 6.0)
    assert measured["b"].values == (4.0, 5.0)


def test_ratios_are_taken_round_by_round() -> None:
    fast, slow = Samples(values=(2.0, 6.0, 20.0)), Samples(values=(1.0, 2.0, 4.0))
    assert fast.over(slow).values == (2.0, 3.0, 5.0)
    assert fast.over(slow).median == 3.0


def test_percentiles_and_spread() -> None:
    samples = Samples(values=tuple(float(i) for i in range(1, 101)))
    assert (samples.percentile(50), samples.percentile(99), samples.percentile(100)) == (50.0, 99.0, 100.0)
    assert Samples(values=(3.0,)).percentile(99) == 3.0
    assert Samples(values=(8.0, 10.0, 12.0)).spread == pytest.approx(0.1)


@pytest.mark.parametrize("name", PROMPT_SETS)
def test_prompt_sets_are_complete_and_have_unique_names(name: str) -> None:
    prompts = load_prompts(name)
    assert len({prompt.id for prompt in prompts}) == len(prompts) >= 8
    assert all(prompt.prompt.strip() for prompt in prompts)


def test_repetitive_prompts_have_eight_of_each_kind() -> None:
    kinds = [prompt.kind for prompt in load_prompts("repetitive")]
    assert kinds.count("edit") >= 8
    assert kinds.count("quote") >= 8
    assert len(load_prompts("questions")) == 80


def test_a_part_of_a_set_is_spread_over_it() -> None:
    assert {prompt.kind for prompt in load_prompts("repetitive", 4)} == {"edit", "quote"}


def test_mathematics_comes_from_held_out_templates_only() -> None:
    names = [prompt.id for prompt in held_out_mathematics(12)]
    assert len(names) == 12
    assert all(int(name.removeprefix("gsm-")) % 4 == 3 for name in names)


def test_written_prompts_are_json_lines() -> None:
    for path in FOLDER.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            assert set(json.loads(line)) == {"id", "kind", "prompt"}, path


def test_unknown_prompt_set_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'nope' is unknown; known: .*repetitive"):
        load_prompts("nope")


def test_a_report_keeps_rows_notes_and_provenance(tmp_path: Path) -> None:
    options = read_options(make_parser("harness", "test"), ["--quick", "--out", str(tmp_path)], rounds=3)
    report = Report(options)
    report.add("speed", {"b": 1, "ms": 2.5})
    report.note("nothing was skipped")
    path = report.finish()
    assert path == tmp_path / "harness.json"
    written = json.loads(path.read_text())
    assert written["sections"] == {"speed": [{"b": 1, "ms": 2.5}]}
    assert written["notes"] == ["nothing was skipped"]
    kept = written["provenance"]
    assert kept["command"] == f"python -m benchmarks.harness --quick --out {tmp_path}"
    assert kept["cpu"]["model"]
    assert kept["torch_threads"] >= 1
    assert {"commit", "dirty", "cores", "environment", "load_average"} <= set(kept)
    assert {"torch", "transformers", "ray"} <= set(kept["versions"])


def test_a_quick_run_writes_only_where_it_is_told() -> None:
    assert read_options(make_parser("harness", "test"), ["--quick"], rounds=3).out is None
