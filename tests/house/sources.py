"""The repository's own Python sources, as the layout tests see them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("protos", "modeling", "drafters", "verifier", "cache_service", "services", "paradraft")
FOLDERS = (*PACKAGES, "benchmarks", "examples", "tests")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def python_files() -> tuple[Path, ...]:
    """Every hand-written .py file of the house."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return tuple(sorted(path for path in found if "_pb2" not in path.name))


@functools.cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of one file."""
    return ast.parse(path.read_text(), filename=str(path))


def functions() -> Iterator[tuple[str, Function]]:
    """(where, node) for every function and method."""
    for path in python_files():
        for node in ast.walk(parse(path)):
            if isinstance(node, Function):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node
