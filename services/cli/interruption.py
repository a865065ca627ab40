"""stop_signals: Ctrl-C, SIGTERM and a closed terminal all mean the same to a server: end, and clean up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals() -> Iterator[None]:
    """Within it, each of them raises KeyboardInterrupt; those that the process was told to ignore (nohup) stay so."""
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    heeded = [number for number, handler in previous.items() if handler is not signal.SIG_IGN]
    try:
        for number in heeded:
            signal.signal(number, signal.default_int_handler)
        yield
    finally:
        for number in heeded:
            signal.signal(number, previous[number])


def ignore_stop_signals() -> None:
    """For the end of a server: a second Ctrl-C must not leave half of its processes behind."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
