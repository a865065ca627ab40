"""absolute: a directory of draft files as the user wrote it, from the root."""

from __future__ import annotations

from pathlib import Path


def absolute(directory: str) -> Path:
    """`~` is the home directory. ValueError for what can be no path."""
    try:
        path = Path(directory).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"draft_files is {directory!r}: {error}; give a directory") from error
    if "\0" in directory:
        raise ValueError(f"draft_files is {directory!r}, and no path has a NUL in it; give a directory")
    return path
