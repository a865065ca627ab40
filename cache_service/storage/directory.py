"""A directory of draft files: which namespaces it has, by folder and by id, read beside whoever writes to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from cache_service.storage.namespace import directory_name
from cache_service.storage.segment import Segment
from cache_service.storage.segments import segment_paths
from protos.draft_files import Namespace

ATTEMPTS = 20  # at reading files that a compaction may remove meanwhile

Read = TypeVar("Read")


def folders(directory: Path) -> dict[Path, Namespace]:
    """Those with draft files, and what the first file with a header says of each.

    ValueError where there is no directory, or a file is foreign or newer. FileNotFoundError where one was compacted
    away meanwhile: see `retried`.
    """
    if not directory.is_dir():
        what = "is no directory" if directory.exists() else "does not exist"
        raise ValueError(f"{directory} {what}: give a directory of draft files, as a server or `build` makes it")
    found = {}
    for folder in sorted(path for path in directory.iterdir() if path.is_dir()):
        namespace = next(filter(None, map(Segment.namespace_of, segment_paths(folder))), None)
        if namespace is not None:
            found[folder] = namespace
    return found


def namespaces(directory: Path) -> dict[str, Namespace]:
    """Those with files, by their ids. ValueError: see `folders`."""
    found = retried(directory, lambda: folders(directory)).values()
    return {directory_name(each): each for each in found}


def find(directory: Path, beginning: str) -> Namespace:
    """The namespace whose id begins so; ValueError where there is none, or more than one."""
    known = namespaces(directory)
    return known[find_id(known, beginning, where=str(directory))]


def selected(directory: Path, beginning: str | None) -> list[Namespace]:
    """The one whose id begins so, as `find` has it; all for None."""
    return list(namespaces(directory).values()) if beginning is None else [find(directory, beginning)]


def find_id(ids: Iterable[str], beginning: str, *, where: str) -> str:
    """The one that begins so; ValueError where there is none, or more than one, `where` they were looked for."""
    known = sorted(ids)
    found = [each for each in known if each.startswith(beginning)]
    if len(found) != 1:
        what = f"the beginning of {len(found)} namespaces" if found else "no namespace"
        raise ValueError(f"{beginning!r} is {what} in {where}; there are: {', '.join(found or known) or 'none'}")
    return found[0]


def retried(directory: Path, read: Callable[[], Read]) -> Read:
    """`read()`, again where a file went away meanwhile. RuntimeError where that happens each time."""
    for _ in range(ATTEMPTS):
        try:
            return read()
        except FileNotFoundError as error:
            gone = error.filename
    raise RuntimeError(f"{gone} went away while {directory} was read: its server tidies up, try again in a moment")
