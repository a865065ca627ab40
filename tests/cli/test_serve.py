"""paradraft serve as a user starts it: it answers, it stops clean, and it says why where it cannot start."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from services.free_port import free_port
from tests.cli.serving import (
    PARADRAFT,
    SMALL,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    processes_of,
    started,
    wait_until,
)

pytestmark = pytest.mark.ray


def test_it_answers_and_stops_without_a_trace(model: str, environment: dict[str, str], tmp_path: Path) -> None:
    port, log = free_port("127.0.0.1"), tmp_path / "log"
    process = started(log, [model, "--served-model-name", "tiny", "--port", str(port)], environment)
    try:
        wait_until(lambda: "try: curl" in log.read_text(), process, log)
        body = {"model": "tiny", "prompt": "abcabc", "max_tokens": 5}
        answer = httpx.post(f"http://127.0.0.1:{port}/v1/completions", json=body, timeout=60)
        assert answer.json()["usage"]["completion_tokens"] == 5
    finally:
        process.terminate()
        code = process.wait(timeout=STOP_TIMEOUT_S)
    assert code == 0, log.read_text()
    assert processes_of(environment) == []
    loading, waiting, ready, hint, stopping, stopped = log.read_text().splitlines()
    assert loading == f"loading {model}"
    assert (waiting, stopping) == ("waiting for the first answer", "stopping")
    assert ready == f"ready tiny at http://127.0.0.1:{port}/v1, drafts by suffix; Ctrl-C stops it"
    assert f"curl http://127.0.0.1:{port}/v1/chat/completions" in hint
    assert stopped == "stopped"


def test_ctrl_c_while_it_starts_leaves_nothing_behind(model: str, environment: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = started(log, [model, "--port", str(free_port("127.0.0.1"))], environment)
    try:
        wait_until(lambda: any("ServeController" in line for line in processes_of(environment)), process, log)
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=STOP_TIMEOUT_S)
    assert code == 0, log.read_text()
    assert log.read_text().splitlines()[-2:] == ["stopping", "stopped"]
    assert processes_of(environment) == []


def test_a_taken_port_is_told_before_anything_starts(model: str, environment: dict[str, str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [PARADRAFT, "serve", model, "--port", str(port), *SMALL]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error: cannot listen on 127.0.0.1:{port} (Address already in use); choose another port"
    ]


def test_a_model_that_is_not_there_is_told_in_its_last_line(environment: dict[str, str], tmp_path: Path) -> None:
    command = [PARADRAFT, "serve", str(tmp_path), "--port", str(free_port("127.0.0.1")), *SMALL]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[:-1] == [f"loading {tmp_path}", "stopping"]
    assert "has no config.json" in done.stderr.splitlines()[-1]
    assert processes_of(environment) == []
