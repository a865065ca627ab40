"""flushing: brings how stored prefixes were used to the disk every now and then, lest a process dies with all of it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from cache_service.storage.store import Store

logger = logging.getLogger(__name__)

EVERY_S = 10.0


@contextlib.contextmanager
def flushing(store: Store, every_s: float = EVERY_S) -> Iterator[None]:
    """While this is entered, a thread flushes. What is lost with the process is what was counted since."""
    ended = threading.Event()

    def _run() -> None:
        while not ended.wait(every_s):
            try:
                store.flush()
            except OSError:
                logger.exception("how draft files were used could not be written; it is tried again in %g s", every_s)

    thread = threading.Thread(target=_run, name="draft-files-flush", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
