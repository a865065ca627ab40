"""paradraft cache serve: drafters reach the directory by the address, and what they added is there afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from protos import cache_pb2_grpc
from protos.cache_codec import pack_continuations, pack_questions, unpack_answers
from tests.cli.conftest import Call, said
from tests.cli.drafts import BOB, fill, stored
from tests.fakes.draft_files import continuation, question


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "drafts"
    fill(directory)
    return directory


@pytest.fixture
def served(files: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and where it listens."""
    command = ["cache", "serve", str(files), "--address", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from services.cli.main import app; app()", *command],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "300"},
    )
    assert process.stderr is not None
    ready = process.stderr.readline()
    assert ready.startswith("ready"), ready + process.stderr.read()
    yield process, ready.split(" at ")[1].split(";")[0]
    if process.poll() is None:
        process.kill()
    process.wait()


def test_drafters_reach_the_files_and_what_they_add_stays(
    paradraft: Call, files: Path, served: tuple[subprocess.Popen[str], str]
) -> None:
    process, address = served
    with grpc.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        assert health.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING
        calls = cache_pb2_grpc.DraftFilesStub(channel)
        (found,) = unpack_answers(calls.LookUp(pack_questions([question(*b"bob says", namespace=BOB)])))
        assert [bytes(path.tokens) for path in found.hits[0].paths] == [b" nothing"]
        calls.Add(pack_continuations([continuation(*b" more of it", after=tuple(b"she says"), namespace=BOB)]))
    refused = paradraft("cache", "prune", str(files), "--tenant", "bob", "--yes")
    assert refused.exit_code == 2
    assert f"process {process.pid} writes to the draft files" in said(refused.stderr)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert stored(files)[BOB] == {"bob says": {" nothing": 1}, "she says": {" more of it": 1}}


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--address", "nowhere.invalid:1:2"], "cannot listen on 'nowhere.invalid:1:2'"),
        (["--budget-bytes", "5"], "budget_bytes is 5"),
        (["--min-similarity", "2"], "min_similarity is 2"),
    ],
)
def test_a_mistake_is_answered_in_plain_words(paradraft: Call, files: Path, args: list[str], reason: str) -> None:
    result = paradraft("cache", "serve", str(files), *args)
    assert result.exit_code == 2
    assert reason in said(result.stderr)
