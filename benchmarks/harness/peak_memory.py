"""peak_memory: MiB that a piece of work adds to a process of its own, at the peak."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any


def peak_memory(work: Callable[..., object], *args: Any) -> float:
    """Runs `work(*args)`, a module's function, in a fresh process; ValueError without Linux's /proc."""
    if not Path("/proc/self/status").exists():
        raise ValueError("peak memory is read from /proc/self/status, which only Linux has")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(_measured, work, args).result()


def _measured(work: Callable[..., object], args: tuple[Any, ...]) -> float:
    before = status_mib("VmRSS")
    work(*args)
    return status_mib("VmHWM") - before


def status_mib(field: str) -> float:
    """A field of /proc/self/status. Not getrusage, whose maximum a process inherits from the one that started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/self/status has no {field}")
