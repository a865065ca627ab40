"""Store: a directory of shelves under one budget."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Self

from cache_service.storage.budgets import UNBOUNDED, Budgets
from cache_service.storage.clock import Clock
from cache_service.storage.compaction import clear, compact, compact_mostly_dead, dead_bytes
from cache_service.storage.directory import folders, retried
from cache_service.storage.eviction import fit
from cache_service.storage.namespace import directory_name
from cache_service.storage.row_table import Rows
from cache_service.storage.shelf import Shelf
from cache_service.storage.upkeep import Upkeep
from protos.draft_files import Namespace

READY = 0.9  # of the limit: more is made room of when there is time
_LOCK = ".lock"
logger = logging.getLogger(__name__)


class Store:
    """One process writes; others may read beside it. What is on the disk stays within the budgets.

    clock, writing, segment_bytes, read_only, check_writable, make_room and note_growth are for the shelves.
    """

    def __init__(self, directory: Path, budgets: Budgets, *, read_only: bool) -> None:
        """Use `open`."""
        self.directory = directory
        self.budgets = budgets
        self.read_only = read_only
        self.clock = Clock()
        self.writing = RLock()
        self.segment_bytes = budgets.segment_bytes
        self._lock = None if read_only else _lock(directory)
        self._shelves: dict[Namespace, Shelf] = {}
        self._tenants: dict[str, list[Shelf]] = {}
        self._listeners: list[Callable[[Namespace, Rows], None]] = []
        self._upkeep = Upkeep(self.tidy_step)

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        budget_bytes: int = UNBOUNDED,
        tenant_budget_bytes: int | None = None,
        read_only: bool = False,
    ) -> Self:
        """budget_bytes: of all files. tenant_budget_bytes: of those of one tenant, None for the same. read_only: beside
        the process that writes, as of now; nothing is changed on the disk, and budgets do not matter.

        ValueError where another process writes to the directory, where this one may not, where a file in it cannot be
        understood, or where the disk has no room to make files smaller. RuntimeError where files are compacted away as
        fast as they are read.
        """
        tenants = budget_bytes if tenant_budget_bytes is None else tenant_budget_bytes
        budgets = Budgets(budget_bytes=budget_bytes, tenant_budget_bytes=tenants)
        store = cls(directory, budgets, read_only=read_only)
        try:
            for namespace in retried(directory, lambda: _namespaces(directory)):
                retried(directory, partial(store.shelf, namespace))
            if not read_only:
                store._tidy()
                store._upkeep.start()
        except BaseException:
            store._let_go()
            raise
        return store

    def shelf(self, namespace: Namespace) -> Shelf:
        """The shelf of a namespace. It has files once it has a record."""
        known = self._shelves.get(namespace)
        if known is not None:
            return known
        with self.writing:
            if namespace not in self._shelves:
                made = Shelf(namespace, self.directory / directory_name(namespace), self)
                self._shelves[namespace] = made
                self._tenants.setdefault(namespace.tenant, []).append(made)
            return self._shelves[namespace]

    def shelves(self) -> list[Shelf]:
        """Those with files."""
        return [shelf for shelf in self._all() if shelf.num_bytes]

    @property
    def num_bytes(self) -> int:
        """Of all files."""
        return sum(shelf.num_bytes for shelf in self.shelves())

    def on_evict(self, listener: Callable[[Namespace, Rows], None]) -> None:
        """`listener` is told which rows had to make room, by the thread that made it. It must not wait for others:
        nobody can write meanwhile.
        """
        self._listeners.append(listener)

    def drop(self, namespace: Namespace) -> None:
        """Removes all records of a namespace, and its files."""
        self.check_writable()
        with self.writing:
            shelf = self.shelf(namespace)
            self._evict(shelf, shelf.live_rows())
            clear(shelf)

    def flush(self) -> None:
        """How records were used is on the disk when this returns."""
        self.check_writable()
        for shelf in self.shelves():
            shelf.flush()

    def compact_now(self) -> None:
        """Gives back every byte that is dead."""
        self.check_writable()
        for shelf in self.shelves():
            with self.writing:
                for number in sorted(shelf.segments.by_number):
                    if dead_bytes(shelf, number) > 0:
                        compact(shelf, number)
                if not len(shelf):
                    clear(shelf)

    def check_writable(self) -> None:
        """ValueError where it is not this process's to write to."""
        if self._lock is None:
            how = "was opened to be read: open it without read_only" if self.read_only else "is closed: open it again"
            raise ValueError(f"the store in {self.directory} {how}")

    def make_room(self, namespace: Namespace, num_bytes: int) -> None:
        """Called by a shelf before it grows by `num_bytes`; on return it may."""
        with self.writing:
            for shelves, limit in (
                (self._of_tenant(namespace.tenant), self.budgets.tenant_limit),
                (self._all(), self.budgets.limit),
            ):
                while fit(shelves, limit - num_bytes, self._evict):
                    pass

    def note_growth(self) -> None:
        """Called by a shelf that has grown."""
        self._upkeep.wake()

    def tidy_step(self) -> bool:
        """Compacts a segment that is mostly dead, or makes room before it is needed; False where all is tidy."""
        with self.writing:
            for shelves in list(self._tenants.values()):
                if fit(shelves, int(READY * self.budgets.tenant_limit), self._evict):
                    return True
            shelves = self._all()
            return fit(shelves, int(READY * self.budgets.limit), self._evict) or compact_mostly_dead(shelves)

    def close(self) -> None:
        """Flushes, and lets go of the directory; idempotent."""
        self._upkeep.stop()
        with self.writing:  # who is storing, or closing, comes to an end first
            if self._lock is None:
                return
            try:
                self.flush()
            finally:
                self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tidy(self) -> None:
        try:
            while self.tidy_step():
                pass
        except OSError as error:
            if not self._within_budgets():
                raise ValueError(
                    f"draft files in {self.directory} have more bytes than their budget, and cannot be written anew: "
                    f"{error.strerror}; free room on the disk, or give a larger budget"
                ) from error
            logger.warning("%s is not tidied up until more is stored: %s", self.directory, error)

    def _within_budgets(self) -> bool:
        tenants = self._tenants.values()
        return self.num_bytes <= self.budgets.budget_bytes and all(
            sum(shelf.num_bytes for shelf in shelves) <= self.budgets.tenant_budget_bytes for shelves in tenants
        )

    def _let_go(self) -> None:
        if self._lock is not None:
            for shelf in self._all():
                shelf.segments.unmap()
            os.close(self._lock)
            self._lock = None

    def _of_tenant(self, tenant: str) -> list[Shelf]:
        return self._tenants.get(tenant, [])

    def _all(self) -> list[Shelf]:
        return list(self._shelves.values())

    def _evict(self, shelf: Shelf, rows: Rows) -> None:
        killed = shelf.evict(rows)
        for listener in self._listeners:
            listener(shelf.namespace, killed)


def _namespaces(directory: Path) -> list[Namespace]:
    """Of the draft files in a directory; ValueError where a folder has another's name."""
    found = folders(directory)
    for folder, namespace in found.items():
        if directory_name(namespace) != folder.name:
            raise ValueError(
                f"{folder} holds drafts of {namespace}: rename it to {directory_name(namespace)}, or move it away"
            )
    return list(found.values())


def _lock(directory: Path) -> int:
    """A descriptor that holds the directory for this process, until it is closed or the process dies."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ValueError(
            f"draft files cannot be written in {directory}: {error.strerror}; give a directory of your own"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "of another program"
        os.close(descriptor)
        raise ValueError(
            f"process {owner} writes to the draft files in {directory}: ask its server for them, or wait for its end"
        ) from None
    with suppress(OSError):  # a full disk: others are then not told who it is
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
