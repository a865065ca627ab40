"""Clock: microseconds since 1970 that never repeat and never go back, as versions and as times of use."""

from __future__ import annotations

import time
from threading import Lock


class Clock:
    """Thread-safe. Where the system's clock is set back, it counts on from where it was."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = Lock()

    def tick(self) -> int:
        """Later than every tick before, and than everything in `pass_by`."""
        with self._lock:
            self._last = max(self._last + 1, time.time_ns() // 1000)
            return self._last

    def pass_by(self, ticks: int) -> None:
        """What comes is later than `ticks`, which an earlier process gave."""
        with self._lock:
            self._last = max(self._last, ticks)
