"""Deaths: what was acknowledged is there afterwards, whenever they come."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

from cache_service.storage.store import Store
from tests.cache_service.crash_child import NUM_STEADY
from tests.cache_service.records import BUDGET, NAMESPACE, disk_bytes, record, same, stored, version_of

ROUNDS = 8


def run_and_kill(directory: Path, mode: str, start: int, seconds: float) -> list[tuple[int, int]]:
    """The numbers and versions that the child acknowledged, until it was killed so long after the first."""
    command = [sys.executable, "-m", "tests.cache_service.crash_child", str(directory), mode, str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(seconds)
        child.kill()
        lines = [first, *child.stdout]
    whole = [line.split() for line in lines if line.endswith("\n")]
    assert whole, "the child died before it stored anything"
    return [(int(number), int(version)) for number, version in whole]


def test_kill_9_while_records_are_stored_loses_none_that_was_acknowledged(tmp_path: Path) -> None:
    random = Random(0)
    acknowledged: set[int] = set()
    for turn in range(ROUNDS):
        said = run_and_kill(tmp_path, "append", 10_000 * turn, random.uniform(0, 0.1))
        acknowledged |= {number for number, _ in said}
        with Store.open(tmp_path, budget_bytes=64 * BUDGET) as store:
            shelf = store.shelf(NAMESPACE)
            for number in acknowledged:
                assert same(stored(shelf, number), record(number)), number
            # The one it died in may be there in part, and no more.
            assert len(acknowledged) <= len(shelf) <= len(acknowledged) + 5 * (turn + 1)


def test_kill_9_while_files_are_compacted_loses_none_that_was_acknowledged(tmp_path: Path) -> None:
    random = Random(1)
    newest: dict[int, int] = {}
    for turn in range(ROUNDS):
        newest |= dict(run_and_kill(tmp_path, "compact", 10_000 * turn, random.uniform(0, 0.2)))
        with Store.open(tmp_path, budget_bytes=BUDGET) as store:
            shelf = store.shelf(NAMESPACE)
            for number, version in newest.items():
                assert version_of(stored(shelf, number)) >= version, number
            assert len(shelf) <= NUM_STEADY
            assert disk_bytes(tmp_path) <= BUDGET


def test_death_in_any_call_to_the_disk_loses_none_that_was_acknowledged(tmp_path: Path) -> None:
    """And so does a power failure, which takes what was not synced."""
    command = [sys.executable, "-m", "tests.cache_service.crash_points", str(tmp_path)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert all(int(calls) > 30 for calls in outcome.stdout.split())
    assert len(outcome.stdout.split()) == 2
