"""paradraft bench: lists the benchmarks of this repository and runs one by name."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from services.cli.failures import FAILED, one_line_errors


@one_line_errors
def bench(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Which benchmark; without it, the list.")] = None,
) -> None:
    """Run a benchmark by name, or list them.

    What follows the name goes to the benchmark: paradraft bench NAME --help
    """
    known = benchmarks()
    if not known:
        raise RuntimeError("benchmarks are not part of this installation; run from a clone of the repository")
    if name is None:
        _print_list(known)
        return
    if name not in known:
        raise ValueError(f"{name!r} is no benchmark; there are: {', '.join(known)}")
    result = importlib.import_module(f"benchmarks.{name}").main(context.args)
    raise typer.Exit(FAILED if result else 0)


def benchmarks() -> dict[str, str]:
    """Name → first line of the docstring, of each module `benchmarks.<name>` that has a `main`; nothing is imported."""
    package = importlib.util.find_spec("benchmarks")
    folders = [] if package is None else list(package.submodule_search_locations or ())
    found = {}
    for module in sorted(pkgutil.iter_modules(folders), key=lambda each: each.name):
        for folder in folders:
            source = Path(folder, f"{module.name}.py")
            if source.exists():
                tree = ast.parse(source.read_text())
                if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
                    found[module.name] = _summary(module.name, ast.get_docstring(tree) or "")
    return found


def _summary(name: str, docstring: str) -> str:
    return docstring.partition("\n")[0].removeprefix(f"{name}: ")


def _print_list(known: dict[str, str]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("benchmark", style="bold")
    table.add_column("what it measures")
    for name, summary in known.items():
        table.add_row(name, summary)
    Console().print(table)
