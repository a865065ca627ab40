"""Writes that are on the disk when they return."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

UNNAMED = ".new"  # suffix of a file that has not got its name yet


def extend(path: Path, end: int, content: bytes) -> None:
    """Writes at `end` of a file. OSError where that fails; then the file ends at `end` again, if the disk allows."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        _write_at(descriptor, end, content)
        os.fdatasync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, end)
        raise
    finally:
        os.close(descriptor)


def replace(path: Path, content: bytes) -> None:
    """Gives `path` this content in one step: a crash leaves the old file or the new one."""
    unnamed = path.with_suffix(UNNAMED)
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _write_at(descriptor, 0, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    unnamed.replace(path)
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """For the owner alone: what is stored is the text of users."""
    if not folder.exists():
        folder.mkdir(mode=0o700)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Puts on the disk which files a folder has."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_at(descriptor: int, position: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        written = os.pwrite(descriptor, remaining, position)
        remaining, position = remaining[written:], position + written
