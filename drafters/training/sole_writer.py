"""sole_writer: a file or folder that one process at a time writes to."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Holds what is at `path` for the time of the block; ValueError where another process does.

    The system itself lets go of it when the process dies, however that happens.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ValueError(f"another process is writing to {path}; wait for its end, or give another --out") from None
    finally:
        os.close(handle)
