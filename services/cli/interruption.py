"""What ends a server: Ctrl-C, SIGTERM and a closed terminal all mean the same: stop, and clean up."""

from __future__ import annotations

import signal
import time
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_EVERY_S = 0.5


def heed_stop_signals() -> None:
    """From now on each of them raises KeyboardInterrupt; those that the process was told to ignore (nohup) stay so."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def wait_for_stop() -> NoReturn:
    """Sleeps until one of them comes, however many threads there are: pause() would miss what another of them took."""
    while True:
        time.sleep(LOOK_EVERY_S)


def ignore_stop_signals() -> None:
    """For the end of a server: a second Ctrl-C must not leave half of its processes behind."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
