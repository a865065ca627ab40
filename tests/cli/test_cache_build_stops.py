"""paradraft cache build, stopped: what is done is kept, and the same command goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from services.cli.bars import BuildBar
from services.draft_building.builder import prompt_digest
from services.draft_building.journal import NAME
from tests.cli.conftest import Call, said
from tests.cli.drafts import SMALL, ids_of, records


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path / "drafts"


def noted(files: Path) -> int:
    journal = files / NAME
    return (journal.stat().st_size - 8) // 24 if journal.exists() else 0


def all_are_there(files: Path) -> bool:
    found = records(files)[1]
    return all(prompt_digest(ids_of(f"Question {number}?")) in found for number in range(80))


@pytest.fixture
def many(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    path.write_text("".join(f"Question {number}?\n" for number in range(80)))
    return path


def test_a_kill_keeps_what_is_done(many: Path, model: str, files: Path, paradraft: Call) -> None:
    command = ["cache", "build", model, "--draft-files", str(files), "--prompts", str(many), *SMALL]
    process = subprocess.Popen(
        [sys.executable, "-c", "from services.cli.main import app; app()", *command],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and noted(files) < 10:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    done = noted(files)
    assert f"{done} of 80 are done already" in said(paradraft(*command).stderr)
    assert all_are_there(files)


def test_ctrl_c_says_what_is_kept(
    many: Path, model: str, files: Path, paradraft: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    saw = BuildBar.saw

    def interrupted(bar: BuildBar, tokens: int) -> None:
        saw(bar, tokens)
        if bar.done == 10:
            signal.raise_signal(signal.SIGINT)

    command = ["cache", "build", model, "--draft-files", str(files), "--prompts", str(many), *SMALL]
    with monkeypatch.context() as patched:
        patched.setattr(BuildBar, "saw", interrupted)
        result = paradraft(*command)
    assert result.exit_code == 130
    assert "stopped: 10 of 80 are done and kept; the same command goes on" in said(result.stderr)
    assert "10 of 80 are done already" in said(paradraft(*command).stderr)
    assert all_are_there(files)
