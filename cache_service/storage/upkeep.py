"""Upkeep: the thread in which a store tidies up, apart from those that look up and store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread, current_thread

PAUSE_S = 0.2  # from the first wake: what comes meanwhile is done with it
logger = logging.getLogger(__name__)


class Upkeep:
    """step: called after a `wake` until it returns False; others may write between two steps. What the disk refuses
    is logged.
    """

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step = step
        self._woken = Event()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="draft-files-upkeep", daemon=True)

    def start(self) -> None:
        """Once."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something to do."""
        self._woken.set()

    def stop(self) -> None:
        """Waits for the end of a step, unless it is called in one, by a collector of garbage; idempotent."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive() and self._thread is not current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():  # which the clear below may have taken the wake of
            self._woken.wait()
            if self._stopping.wait(PAUSE_S):
                return
            self._woken.clear()
            try:
                while not self._stopping.is_set() and self._step():
                    pass
            except OSError:
                logger.exception("draft files could not be tidied up; it is tried again when more are stored")
