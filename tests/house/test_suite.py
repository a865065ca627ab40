"""Two processes at once: the exit status tells of either, both are shown, and Ctrl-C stops both."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tests.suite import FOLDERS, run_at_once


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize(("shown", "kept", "status"), [(0, 0, 0), (3, 0, 3), (0, 4, 4), (3, 4, 3)])
def test_a_failure_of_either_is_one_of_both(
    shown: int, kept: int, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    ends = [python(f"print('{name}'); raise SystemExit({code})") for name, code in (("first", shown), ("then", kept))]
    assert run_at_once(*ends) == status
    assert capfd.readouterr().out.split() == ["first", "then"]


def test_one_that_is_killed_is_a_failure() -> None:
    killed = python("import os; os.kill(os.getpid(), 9)")
    assert run_at_once(python(""), killed) == run_at_once(killed, python("")) == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_both_clean_up(number: signal.Signals, tmp_path: Path) -> None:
    part = (
        "import pathlib, sys, time\n"
        "place = pathlib.Path(sys.argv[1])\n"
        "try:\n"
        "    place.with_suffix('.began').touch()\n"
        "    time.sleep(60)\n"
        "finally:\n"
        "    place.with_suffix('.ended').touch()\n"
    )
    parts = [[*python(part), str(tmp_path / name)] for name in "ab"]
    both = subprocess.Popen(python(f"import tests.suite as s; raise SystemExit(s.run_at_once(*{parts}))"), cwd=ROOT)
    while len(list(tmp_path.glob("*.began"))) < 2:
        assert both.poll() is None
        time.sleep(0.02)
    both.send_signal(number)
    assert both.wait(timeout=30) != 0
    assert len(list(tmp_path.glob("*.ended"))) == 2


def test_all_that_starts_a_cluster_is_in_one_process() -> None:
    starting = [path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.ray" in path.read_text()]
    here = Path(__file__).resolve()
    folders = {f"tests/{path.relative_to(ROOT / 'tests').parts[0]}" for path in starting if path.resolve() != here}
    assert folders <= set(FOLDERS)
    assert all((ROOT / folder).is_dir() for folder in FOLDERS)
