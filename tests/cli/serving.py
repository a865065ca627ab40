"""`paradraft serve` as a process: how it is started, waited for, and looked for afterwards."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PARADRAFT = str(Path(sys.executable).with_name("paradraft"))
SMALL = ["--dtype", "fp32", "--device", "cpu", "--threads", "1", "--max-num-seqs", "2", "--max-model-len", "256"]
MARK = "PARADRAFT_TEST_SERVE"
START_TIMEOUT_S, STOP_TIMEOUT_S = 180.0, 90.0


def processes_of(environment: dict[str, str]) -> list[str]:
    """Command lines of the processes that are still there from a server with this environment."""
    mark, found = f"{MARK}={environment[MARK]}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text())
        except OSError:  # gone, or not ours to read
            continue
    return found


def started(log: Path, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with log.open("w") as output:
        return subprocess.Popen([PARADRAFT, "serve", *command, *SMALL], env=environment, stdout=output, stderr=output)


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not holds():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
