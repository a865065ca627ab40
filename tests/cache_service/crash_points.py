"""Dies at every call to the disk in turn, and each time looks for what had been acknowledged.

A process that dies leaves half of the write it was in, or, where the power fails, nothing that was not synced.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from cache_service.storage.store import Store
from tests.cache_service.records import BUDGET, NAMESPACE, record, stored, version_of

CALLS = ("pwrite", "fsync", "fdatasync", "replace", "unlink", "mkdir", "ftruncate", "truncate")
NUM_RECORDS = 6
Acknowledged = dict[int, tuple[int, int]]  # by number: the version that was stored last, and the count of its path


class Death:
    """Lets `calls` calls to the disk pass and dies in the next."""

    def __init__(self, calls: int, *, power_fails: bool) -> None:
        self._left = calls
        self._power_fails = power_fails
        self._unsynced: dict[int, tuple[int, int]] = {}  # by inode: a descriptor, and the bytes that are synced
        for name in CALLS:
            setattr(os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                self._die(name, call, args)
            if name == "pwrite":
                found = os.fstat(args[0])
                self._unsynced.setdefault(found.st_ino, (os.dup(args[0]), found.st_size))
            if name in ("fsync", "fdatasync"):
                self._unsynced.pop(os.fstat(args[0]).st_ino, None)
            return call(*args, **kwargs)

        return wrapped

    def _die(self, name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._left = sys.maxsize
        if name == "pwrite" and not self._power_fails:
            call(args[0], args[1][: len(args[1]) // 2], args[2])
        if self._power_fails:
            for descriptor, size in self._unsynced.values():
                os.ftruncate(descriptor, size)
        os.kill(os.getpid(), signal.SIGKILL)


def live(directory: Path, say: int) -> None:
    """Stores, stores anew, compacts and flushes; says when a record is stored, and when its count is flushed."""
    with Store.open(directory, budget_bytes=BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        for version in range(3):
            numbers = range(version, NUM_RECORDS)
            rows = shelf.append([record(number, version=version) for number in numbers])
            os.write(say, "".join(f"{number} {version} 2\n" for number in numbers).encode())
            for row in rows:
                shelf.count(row, 0)
            store.flush()
            os.write(say, "".join(f"{number} {version} 3\n" for number in numbers).encode())
            store.compact_now()


def check(directory: Path, acknowledged: Acknowledged) -> None:
    """Nothing of it is lost, and what was never acknowledged is whole if it is there."""
    for _ in range(2):  # and again, when the first has cut and cleaned
        with Store.open(directory, budget_bytes=BUDGET) as store:
            shelf = store.shelf(NAMESPACE)
            for number, (version, count_) in acknowledged.items():
                found = stored(shelf, number)
                assert found is not None, (directory, number)
                assert version_of(found) >= version, (directory, number)
                if version_of(found) == version:
                    assert found.paths[0].count >= count_, (directory, number)
            shelf.append([record(99)])
            assert not list(directory.rglob("*.new"))


def die_at(directory: Path, calls: int, *, power_fails: bool) -> tuple[Acknowledged, bool]:
    """What had been acknowledged, and whether the process came to its end before it had to die."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        Death(calls, power_fails=power_fails)
        live(directory, writing)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        lines = [[int(word) for word in line.split()] for line in said]
    acknowledged = {number: (version, count_) for number, version, count_ in lines}
    return acknowledged, os.waitpid(child, 0)[1] == 0


def main(directory: Path) -> None:
    for power_fails in (False, True):
        for calls in count():
            place = directory / f"{calls}-{power_fails}"
            acknowledged, ended = die_at(place, calls, power_fails=power_fails)
            check(place, acknowledged)
            if ended:
                assert acknowledged == {0: (0, 3), 1: (1, 3), **dict.fromkeys(range(2, NUM_RECORDS), (2, 3))}
                sys.stdout.write(f"{calls}\n")
                break


if __name__ == "__main__":
    main(Path(sys.argv[1]))
