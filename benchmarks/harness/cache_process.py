"""CacheProcess: a cache service in a process of its own, over draft files that are there, at a Unix socket."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.harness.peak_memory import status_mib
from benchmarks.harness.synthetic_prefixes import NAMESPACE
from cache_service.search.pretriever import Pretriever
from cache_service.storage.store import Store
from modeling.provenance import ROOT
from protos.draft_files import Namespace, Prefix, Question
from services.draft_files.cache_server import CacheServer

BUDGET_BYTES = 2**33
NOWHERE = Prefix(tokens=(0,) * 32, length=32, digest=bytes(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """store_ms: until the files were open. ready_ms: until they were indexed and could be asked. settled_ms: until
    their vectors were searched as they are from then on. memory_mib: that all of this took, mapped files not counted.
    """

    store_ms: float
    ready_ms: float
    settled_ms: float
    memory_mib: float


@contextmanager
def opened(directory: Path, namespace: Namespace) -> Iterator[tuple[Pretriever, Opening]]:
    """The draft files of a directory, ready for questions about a namespace; closed at the end."""
    memory, start = status_mib("RssAnon"), time.perf_counter()
    with Store.open(directory, budget_bytes=BUDGET_BYTES) as store:
        at_store = time.perf_counter()
        with closing(Pretriever(store, min_similarity=0.0)) as pretriever:
            pretriever.look_up([Question(request_id="", namespace=namespace, prefix=NOWHERE)])
            at_ready = time.perf_counter()
            pretriever.settle()
            yield (
                pretriever,
                Opening(
                    store_ms=(at_store - start) * 1e3,
                    ready_ms=(at_ready - start) * 1e3,
                    settled_ms=(time.perf_counter() - start) * 1e3,
                    memory_mib=status_mib("RssAnon") - memory,
                ),
            )


class CacheProcess:
    """`with CacheProcess(directory) as process:` it answers at `process.address` inside; `opening` is what that took.

    No other process may have the directory open.
    """

    opening: Opening

    def __init__(self, directory: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cache-")
        self.address = f"unix:{self._folder.name}/socket"
        self._command = [sys.executable, "-m", "benchmarks.harness.cache_process", str(directory), self.address]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise RuntimeError(f"{' '.join(self._command)} ended by itself with {self._process.returncode}")
        self.opening = Opening(**json.loads(line))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()


def main() -> None:
    """Serves until its input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("address")
    given = parser.parse_args()
    with opened(given.directory, NAMESPACE) as (pretriever, opening):
        server = CacheServer(pretriever, given.address)
        server.start()
        print(json.dumps(asdict(opening)), flush=True)
        sys.stdin.read()
        server.stop()


if __name__ == "__main__":
    main()
