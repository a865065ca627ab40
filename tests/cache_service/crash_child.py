"""A process that stores records until it is killed. It prints the number and version of each once it is acknowledged.

`append` stores ever new records; `compact` stores the same few anew, and compacts all the time.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path

from cache_service.storage.store import Store
from tests.cache_service.records import BUDGET, NAMESPACE, record

NUM_STEADY = 60


def main(directory: Path, mode: str, start: int) -> None:
    with Store.open(directory, budget_bytes=(64 if mode == "append" else 1) * BUDGET) as store:
        shelf = store.shelf(NAMESPACE)
        for turn in count(start):
            if mode == "append":
                batch = [(5 * turn + index, 0) for index in range(5)]
            else:
                batch = [(number, turn) for number in range(turn % 3, NUM_STEADY, 3)]
            shelf.append([record(number, version=version) for number, version in batch])
            os.write(1, "".join(f"{number} {version}\n" for number, version in batch).encode())
            if mode == "compact":
                store.compact_now()
                store.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
