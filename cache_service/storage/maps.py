"""Map: a file as memory; not more of them at once than a process may have files open."""

from __future__ import annotations

import mmap
from pathlib import Path
from threading import Lock

MAX_OPEN = 512  # each holds a file descriptor, of which a process often has 1024

_lock = Lock()
_open: dict[Map, None] = {}  # of the process, as descriptors are; those that were mapped first are first


class Map:
    """Of a file that grows or is unlinked, and does not change else. Views stay readable, whatever becomes of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._view = memoryview(b"")

    def view(self, num_bytes: int) -> memoryview:
        """The file, `num_bytes` of it or more."""
        view = self._view
        if len(view) < num_bytes:
            view = self.view_for_good(num_bytes)
            with _lock:
                _open.pop(self, None)
                _open[self] = None
                if len(_open) > MAX_OPEN:
                    first = next(iter(_open))
                    first._view = memoryview(b"")
                    del _open[first]
        return view

    def view_for_good(self, num_bytes: int) -> memoryview:
        """The same of a file that may be unlinked by others, and cannot be mapped again."""
        if len(self._view) < num_bytes:
            with self._path.open("rb") as file:
                self._view = memoryview(mmap.mmap(file.fileno(), num_bytes, access=mmap.ACCESS_READ))
        return self._view

    def close(self) -> None:
        """Until the next view."""
        with _lock:
            _open.pop(self, None)
            self._view = memoryview(b"")
