"""study: training runs side by side, from their provenance.json: accepted length by domain and position, size, time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.options import make_parser, read_options
from benchmarks.harness.report import Report
from modeling.checkpoint_files import PROVENANCE

SHOWN = ("method", "layers", "block_size", "markov", "slots", "taps", "draft_vocab")

Run = Mapping[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """One row a run, in the order given; ratios are to the first. Trains and measures nothing."""
    parser = make_parser("study", __doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders that paradraft train wrote")
    parser.add_argument("--plot", type=Path, help="image file of the comparison")
    options = read_options(parser, argv, rounds=1)
    runs = {_name(folder, options.extra.runs): read_run(folder) for folder in options.extra.runs}
    report = Report(options)
    first = best_look(next(iter(runs.values())))["held_out"]["accepted_length"]
    for name, run in runs.items():
        held_out = best_look(run)["held_out"]
        report.add("the runs", {"run": name} | _what(run))
        domains = {f"τ {domain}": length for domain, length in held_out["by_domain"].items()}
        lengths = {"τ": held_out["accepted_length"], "ratio": held_out["accepted_length"] / first}
        lengths["τ drawn at T=1"] = held_out["expected_length"]
        report.add("accepted length on held-out answers", {"run": name} | lengths | domains)
        positions = {str(k): rate for k, rate in enumerate(held_out["by_position"], start=1)}
        report.add("acceptance by position, of those whose earlier ones were accepted", {"run": name} | positions)
    if options.extra.plot is not None:
        draw(runs).savefig(options.extra.plot, dpi=110)
    report.finish()
    return 0


def read_run(folder: Path) -> Run:
    """Its provenance; ValueError where there is none, or none of a training run."""
    file = folder / PROVENANCE
    if not file.exists():
        raise ValueError(f"{str(folder)!r} holds no {PROVENANCE}; give the folder of a training run that has looked")
    run: dict[str, Any] = json.loads(file.read_text())
    if not run.get("looks"):
        raise ValueError(f"{str(file)!r} has no looks at held-out answers; it is not a training run's")
    return run


def best_look(run: Run) -> Mapping[str, Any]:
    """The look whose weights the run left: the longest accepted length."""
    best: Mapping[str, Any] = max(run["looks"], key=lambda look: look["held_out"]["accepted_length"])
    return best


def draw(runs: Mapping[str, Run]) -> Any:
    """Accepted length over the steps, and acceptance by position: a matplotlib Figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    length, position = figure.subplots(1, 2)
    for name, run in runs.items():
        looks, rates = run["looks"], best_look(run)["held_out"]["by_position"]
        length.plot(
            [look["step"] for look in looks], [look["held_out"]["accepted_length"] for look in looks], label=name
        )
        position.plot(range(1, len(rates) + 1), rates, label=name, marker=".")
    for axes, title, below in (
        (length, "accepted length, held out", "step"),
        (position, "acceptance once all before were", "position"),
    ):
        axes.set_title(title)
        axes.set_xlabel(below)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    return figure


def _what(run: Run) -> dict[str, object]:
    recipe = run["recipe"]
    sizes = {"parameters": run["parameters"], "training s": run["training_seconds"], "of steps": run["steps"]}
    return {name: recipe[name] for name in SHOWN} | sizes | {"best at step": best_look(run)["step"]}


def _name(folder: Path, others: Sequence[Path]) -> str:
    """The folder's last name where that tells it from the others, else its path."""
    alike = [each for each in others if each.resolve().name == folder.resolve().name]
    return folder.resolve().name if len(alike) == 1 else str(folder)


if __name__ == "__main__":
    raise SystemExit(main())
