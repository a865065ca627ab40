"""Frames: what a draft file is a sequence of. Each has a checksum of its own, so damage stays where it happened.

A frame begins at a multiple of 8 bytes: a marker, the length of the payload, the CRC-32 of these two, the CRC-32 of
the payload (each uint32, little endian), the payload. No token is the marker, for tokens are below 2**31.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

MARKER = 0xD4AF7F11
FRAME = struct.Struct("<IIII")
PAYLOAD_AT = FRAME.size
_CHECKED = 8  # bytes of the marker and the length
_BLOCK = 2**16  # bytes that are searched for a marker at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What a draft file holds. starts: where each whole frame begins. sizes: of their payloads, in bytes.

    end: behind the last frame; what follows is a tail that was never finished. damaged: places where something that
    was written is not what it was.
    """

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    end: int
    damaged: int

    @property
    def frame_sizes(self) -> NDArray[np.int64]:
        """Of whole frames, in bytes."""
        return PAYLOAD_AT + ((self.sizes + 7) & ~7)


def frame_bytes(size: int) -> int:
    """Of a frame whose payload has `size` bytes."""
    return PAYLOAD_AT + align(size)


def align(size: int) -> int:
    """The next multiple of 8."""
    return (size + 7) & ~7


def frame(payload: bytes | memoryview) -> bytes:
    """A payload as it stands in the file."""
    checked = struct.pack("<II", MARKER, len(payload))
    head = checked + struct.pack("<II", crc32(checked), crc32(payload))
    return b"".join((head, payload, bytes(align(len(payload)) - len(payload))))


def payload_at(view: memoryview, start: int) -> memoryview | None:
    """The payload of the frame that begins at `start`; None where it is not what was written."""
    if start + PAYLOAD_AT > len(view):
        return None
    marker, size, check, payload_check = FRAME.unpack_from(view, start)
    payload = view[start + PAYLOAD_AT : start + PAYLOAD_AT + size]
    if marker != MARKER or crc32(view[start : start + _CHECKED]) != check or crc32(payload) != payload_check:
        return None
    return payload


def walk(view: memoryview, start: int) -> Walk:
    """Goes through the frames from `start`. Behind a damaged frame it goes on at the next one."""
    starts: list[int] = []
    sizes: list[int] = []
    damaged, last = 0, len(view)
    unpack_from, check_of = FRAME.unpack_from, crc32
    while start + PAYLOAD_AT <= last:
        marker, size, check, payload_check = unpack_from(view, start)
        if marker != MARKER or check_of(view[start : start + _CHECKED]) != check:
            following = _next_frame(view, start + 8)
            if following is None:
                break
            damaged += 1
            start = following
            continue
        stop = start + PAYLOAD_AT + size
        if stop > last:
            break
        if check_of(view[start + PAYLOAD_AT : stop]) == payload_check:
            starts.append(start)
            sizes.append(size)
        else:
            damaged += 1
        start = align(stop)
    end = min(start, last)
    return Walk(starts=np.array(starts, np.int64), sizes=np.array(sizes, np.int64), end=end, damaged=damaged)


def _next_frame(view: memoryview, start: int) -> int | None:
    for block in range(start, len(view) - PAYLOAD_AT + 1, _BLOCK):
        words = np.frombuffer(view[block : block + _BLOCK][: (len(view) - block) & ~7], "<u4")[::2]
        for position in np.nonzero(words == MARKER)[0].tolist():
            found = block + 8 * position
            if found + PAYLOAD_AT > len(view):
                return None
            _, _, check, _ = FRAME.unpack_from(view, found)
            if crc32(view[found : found + _CHECKED]) == check:
                return found
    return None
