"""A tiny model, and the command line called in process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from benchmarks.harness.tiny import make_tiny_model
from services.cli.main import app

Call = Callable[..., Result]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def paradraft() -> Call:
    """Calls the command; what is printed to standard output and to standard error comes apart."""

    def call(*args: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, list(args), input=stdin, env={"COLUMNS": "200", "TERM": "dumb"})

    return call
