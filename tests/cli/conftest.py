"""A tiny model, and the command line called in process."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner, Result

from benchmarks.harness.tiny import save_tiny
from services.cli.main import app
from tests.cli.serving import MARK

Call = Callable[..., Result]


def said(text: str) -> str:
    """What was printed, wherever its lines were broken."""
    return " ".join(text.split())


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def paradraft() -> Call:
    """Calls the command; what is printed to standard output and to standard error comes apart."""

    def call(*args: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, list(args), input=stdin, env={"COLUMNS": "200", "TERM": "dumb"})

    return call


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Of a user without a cluster; every process below it can be told by MARK."""
    ray_dir = tempfile.mkdtemp(prefix="pd-ray-", dir="/tmp")  # Ray's sockets need a short path
    own = {MARK: ray_dir, "RAY_TMPDIR": ray_dir, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    inherited = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    yield inherited | own | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "COLUMNS": "200"}
    shutil.rmtree(ray_dir, ignore_errors=True)
