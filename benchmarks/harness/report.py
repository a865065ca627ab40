"""Report: the rows of one benchmark, as a table to read and as JSON to keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.harness.options import Options
from modeling.provenance import provenance

WIDTH = 160  # of tables that go to a file


class Report:
    """Rows share their keys' order; a missing key shows as a dash. Provenance is taken when the report is made."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._provenance = provenance(options.command)
        self.sections: dict[str, list[dict[str, Any]]] = {}
        self.notes: list[str] = []

    def add(self, section: str, row: dict[str, Any]) -> None:
        """Adds one row to a section (one table)."""
        self.sections.setdefault(section, []).append(row)

    def note(self, sentence: str) -> None:
        """Something a reader of the numbers must know: what was skipped, and why."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def finish(self) -> Path | None:
        """Prints the tables and writes `<out>/<name>.json`; returns its path."""
        console = Console()
        if not console.is_terminal:
            console = Console(width=WIDTH)
        for section, rows in self.sections.items():
            console.print(f"\n{self._options.name}: {section}", style="bold", highlight=False)
            console.print(_table(rows))
        for sentence in self.notes:
            console.print(f"note: {sentence}", highlight=False)
        if self._options.out is None:
            return None
        self._options.out.mkdir(parents=True, exist_ok=True)
        path = self._options.out / f"{self._options.name}.json"
        path.write_text(json.dumps(self.as_json(), indent=1) + "\n")
        console.print(f"written: {path}", highlight=False)
        return path

    def as_json(self) -> dict[str, Any]:
        """Everything, provenance first."""
        options = {
            "model": self._options.model,
            "device": self._options.device,
            "rounds": self._options.rounds,
            "quick": self._options.quick,
        }
        return {
            "benchmark": self._options.name,
            "provenance": self._provenance | options,
            "sections": self.sections,
            "notes": self.notes,
        }


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(box=SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="left" if isinstance(rows[0].get(column), str) else "right")
    for row in rows:
        table.add_row(*(_show(row.get(column)) for column in columns))
    return table


def _show(value: object) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}"
        case list() | tuple():
            return " ".join(_show(item) for item in value)
        case _:
            return str(value)
