"""The shape of the house: small files, small functions, plain names, packages that resolve inside the repository."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import PACKAGES, ROOT, Function, functions, parse, python_files

MAX_FILE_LINES = 250
MAX_FUNCTION_LINES = 40
MAX_PARAMETERS = 6
MAX_ARCHITECTURE_LINES = 80
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "misc", "common"}
COMMAND_DECORATORS = {"command", "callback"}


def test_the_checks_see_the_sources() -> None:
    assert ROOT / "protos" / "messages.py" in python_files()
    assert len(list(functions())) > 50


def test_files_are_short() -> None:
    sizes = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in python_files()}
    assert {path: size for path, size in sizes.items() if size > MAX_FILE_LINES} == {}


def test_functions_are_short() -> None:
    sizes = {where: node.end_lineno - node.lineno + 1 for where, node in functions() if node.end_lineno is not None}
    assert {where: size for where, size in sizes.items() if size > MAX_FUNCTION_LINES} == {}


def test_functions_take_few_parameters() -> None:
    counts = {where: _count_parameters(node) for where, node in functions() if not _is_command(node)}
    assert {where: count for where, count in counts.items() if count > MAX_PARAMETERS} == {}


def test_names_say_something() -> None:
    assert [path.relative_to(ROOT) for path in python_files() if path.stem in VAGUE_NAMES] == []


def test_every_module_opens_with_a_docstring() -> None:
    bare = [
        path.relative_to(ROOT) for path in python_files() if parse(path).body and ast.get_docstring(parse(path)) is None
    ]
    assert bare == []


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_resolve_inside_the_repository(name: str) -> None:
    found = importlib.import_module(name).__file__
    assert found is not None
    assert Path(found).resolve().parent == ROOT / name


def test_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_readme_names_every_top_level_folder() -> None:
    readme = (ROOT / "README.md").read_text()
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folders = {line.partition("/")[0] for line in listed.splitlines() if "/" in line and not line.startswith(".")}
    assert folders >= set(PACKAGES)
    assert sorted(folder for folder in folders if f"{folder}/" not in readme) == []


def test_architecture_page_is_short() -> None:
    assert len((ROOT / "docs" / "architecture.md").read_text().splitlines()) <= MAX_ARCHITECTURE_LINES


def _count_parameters(node: Function) -> int:
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len([name for name in names if name not in {"self", "cls"}])


def _is_command(node: Function) -> bool:
    """A command-line command has one parameter for each of its options."""
    calls = (item.func for item in node.decorator_list if isinstance(item, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr in COMMAND_DECORATORS for call in calls)
