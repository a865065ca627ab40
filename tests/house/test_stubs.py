"""The committed gRPC stubs are what protos/draft.proto generates."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

STUBS = ("draft_pb2.py", "draft_pb2.pyi", "draft_pb2_grpc.py", "draft_pb2_grpc.pyi")
# Generators write their own versions into the stubs; another version that writes the same code is in sync.
VERSION = re.compile(r"\d+\.\d+\.\d+|^\s+\d+,$", re.MULTILINE)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("stubs")
    kinds = ("python", "grpc_python", "mypy", "mypy_grpc")
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *(f"--{kind}_out={out}" for kind in kinds)]
    plugins = str(Path(sys.executable).parent)
    subprocess.run([*command, "protos/draft.proto"], cwd=ROOT, check=True, env={"PATH": plugins})
    return out / "protos"


@pytest.mark.parametrize("name", STUBS)
def test_stub_is_in_sync(generated: Path, name: str) -> None:
    committed = (ROOT / "protos" / name).read_text()
    assert VERSION.sub("", committed) == VERSION.sub("", (generated / name).read_text()), "run `make proto`"
