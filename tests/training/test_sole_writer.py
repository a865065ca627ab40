"""One process at a time writes to a run's folder or to a file of answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from drafters.training.sole_writer import sole_writer

HOLDS_FOR_GOOD = """
import sys, time
from pathlib import Path
from drafters.training.sole_writer import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    """Killed, a writer leaves nothing behind that would keep others out."""
    with subprocess.Popen([sys.executable, "-c", HOLDS_FOR_GOOD, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with (
            pytest.raises(ValueError, match=r"another process is writing to .*; wait for its end"),
            sole_writer(tmp_path),
        ):
            pass
        other.kill()
    with sole_writer(tmp_path):
        pass
