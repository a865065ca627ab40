"""Store: a directory of shelves under one budget."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Self

from cache_service.clock import Clock
from cache_service.header import HEADER_BYTES, decode_header
from cache_service.namespace import directory_name
from cache_service.row_table import Rows
from cache_service.segments import segment_paths
from cache_service.shelf import Shelf
from protos.draft_files import Namespace

SEGMENTS = 16  # that the budget has room for
MAX_SEGMENT_BYTES = 64 * 2**20
MIN_BUDGET_BYTES = 2**20
_LOCK = ".lock"


class Store:
    """One process writes; others may read beside it."""

    def __init__(self, directory: Path, *, budget_bytes: int, tenant_budget_bytes: int | None, read_only: bool) -> None:
        """Use `open`."""
        self.directory = directory
        self.clock = Clock()
        self.writing = RLock()
        self.read_only = read_only
        self.budget_bytes = budget_bytes
        self.tenant_budget_bytes = budget_bytes if tenant_budget_bytes is None else tenant_budget_bytes
        smallest = min(self.budget_bytes, self.tenant_budget_bytes)
        if smallest < MIN_BUDGET_BYTES:
            raise ValueError(
                f"a budget of {smallest} bytes is too small for draft files: give {MIN_BUDGET_BYTES} or more"
            )
        self.segment_bytes = min(smallest // SEGMENTS, MAX_SEGMENT_BYTES)
        self._lock = None if read_only else _lock(directory)
        self._shelves: dict[Namespace, Shelf] = {}
        self._evicted: list[Callable[[Namespace, Rows], None]] = []

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        budget_bytes: int,
        tenant_budget_bytes: int | None = None,
        read_only: bool = False,
    ) -> Self:
        """ValueError where another process writes to the directory, or a file in it cannot be understood."""
        store = cls(directory, budget_bytes=budget_bytes, tenant_budget_bytes=tenant_budget_bytes, read_only=read_only)
        try:
            for folder in sorted(path for path in directory.iterdir() if path.is_dir()):
                paths = segment_paths(folder)
                if paths:
                    with paths[0].open("rb") as file:
                        store.shelf(decode_header(file.read(HEADER_BYTES), paths[0]))
        except BaseException:
            store.close()
            raise
        return store

    def shelf(self, namespace: Namespace) -> Shelf:
        """The shelf of a namespace. It has files once it has a record."""
        with self.writing:
            if namespace not in self._shelves:
                self._shelves[namespace] = Shelf(namespace, self.directory / directory_name(namespace), self)
            return self._shelves[namespace]

    def shelves(self) -> list[Shelf]:
        """Those with files."""
        with self.writing:
            return [shelf for shelf in self._shelves.values() if shelf.num_bytes]

    def make_room(self, namespace: Namespace, num_bytes: int) -> None:
        """Called by a shelf before it grows."""

    def on_evict(self, listener: Callable[[Namespace, Rows], None]) -> None:
        """`listener` is told which rows had to make room, by whatever thread made it."""
        self._evicted.append(listener)

    def close(self) -> None:
        """Idempotent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _lock(directory: Path) -> int:
    """A descriptor that holds the directory for this process, until it is closed or the process dies."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise ValueError(
            f"process {owner} writes to the draft files in {directory}: ask its server for them, or wait for its end"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
