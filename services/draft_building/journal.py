"""Journal: which prompts a build is done with. It stands beside the draft files and survives any stop.

MAGIC, then entries of one size: CRC-32 of what follows, whether drafts came of the prompt, and the prompt's key.
"""

from __future__ import annotations

import struct
from pathlib import Path
from zlib import crc32

from cache_service.storage import disk

NAME = "built.journal"
MAGIC = b"PDbuilt\n"
KEY_BYTES = 16
_CHECK = struct.Struct("<I")
_CHECKED = struct.Struct(f"<I{KEY_BYTES}s")
_ENTRY_BYTES = _CHECK.size + _CHECKED.size


class Journal:
    """One process writes: whoever holds the store in the same directory. ValueError where the file is another's."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        if not self._path.exists():
            disk.replace(self._path, MAGIC)
        content = self._path.read_bytes()
        if not content.startswith(MAGIC):
            raise ValueError(f"{self._path} begins with {content[: len(MAGIC)]!r}, so no build wrote it; move it away")
        whole = (len(content) - len(MAGIC)) // _ENTRY_BYTES
        self._end = len(MAGIC) + whole * _ENTRY_BYTES
        self._done: dict[bytes, bool] = {}
        for start in range(len(MAGIC), self._end, _ENTRY_BYTES):
            (check,) = _CHECK.unpack_from(content, start)
            checked = content[start + _CHECK.size : start + _ENTRY_BYTES]
            if crc32(checked) == check:  # else the prompt is done once more
                stored, key = _CHECKED.unpack(checked)
                self._done[key] = bool(stored)

    def note(self, key: bytes, *, stored: bool) -> None:
        """The prompt is done, and whether drafts came of it; on the disk when this returns."""
        checked = _CHECKED.pack(stored, key)
        entry = _CHECK.pack(crc32(checked)) + checked
        disk.extend(self._path, self._end, entry)
        self._end += len(entry)
        self._done[key] = stored

    def stored(self, key: bytes) -> bool | None:
        """Whether drafts came of the prompt; None where it is not done."""
        return self._done.get(key)
