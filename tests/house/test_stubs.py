"""The committed gRPC stubs are what the .proto files generate."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

SCHEMAS = sorted(path.stem for path in (ROOT / "protos").glob("*.proto"))
STUBS = [f"{schema}_{kind}" for schema in SCHEMAS for kind in ("pb2.py", "pb2.pyi", "pb2_grpc.py", "pb2_grpc.pyi")]
# Generators write their own versions into the stubs; another version that writes the same code is in sync.
VERSION = re.compile(r"\d+\.\d+\.\d+|^\s+\d+,$", re.MULTILINE)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("stubs")
    kinds = ("python", "grpc_python", "mypy", "mypy_grpc")
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *(f"--{kind}_out={out}" for kind in kinds)]
    plugins = str(Path(sys.executable).parent)
    sources = [f"protos/{schema}.proto" for schema in SCHEMAS]
    subprocess.run([*command, *sources], cwd=ROOT, check=True, env={"PATH": plugins})
    return out / "protos"


def test_every_stub_has_its_schema() -> None:
    assert sorted(STUBS) == sorted(path.name for path in (ROOT / "protos").glob("*_pb2*"))


@pytest.mark.parametrize("name", STUBS)
def test_stub_is_in_sync(generated: Path, name: str) -> None:
    committed = (ROOT / "protos" / name).read_text()
    assert VERSION.sub("", committed) == VERSION.sub("", (generated / name).read_text()), "run `make proto`"
