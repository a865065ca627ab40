"""Header of a draft file: what it is and whose. It is written twice, so that a flipped byte does not hide a file.

A copy: 8 bytes of magic, the schema and the length of the content (uint32 each), the content (msgpack: the
namespace's fields as bytes, and when the file was made, in seconds since 1970), the CRC-32 of all of it. Magic,
schema, length and checksum stay where they are in every schema to come, so that a newer file is known as one.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path
from zlib import crc32

import msgpack

from cache_service.storage.namespace import pack_namespace, unpack_namespace
from protos.draft_files import Namespace

MAGIC = b"PDdraft\n"
SCHEMA = 1
COPY_BYTES = 1024
HEADER_BYTES = 2 * COPY_BYTES
_START = struct.Struct("<8sII")
_CHECK = struct.Struct("<I")


def encode_header(namespace: Namespace) -> bytes:
    """HEADER_BYTES; ValueError where the namespace's fields are too long."""
    content: bytes = msgpack.packb([pack_namespace(namespace), int(time.time())])
    checked = _START.pack(MAGIC, SCHEMA, len(content)) + content
    copy = checked + _CHECK.pack(crc32(checked))
    return copy.ljust(COPY_BYTES, b"\0") * 2


def decode_header(content: bytes, path: Path) -> Namespace:
    """The namespace of the draft file at `path`, which begins with `content`; ValueError where it cannot be read."""
    for copy in (content[:COPY_BYTES], content[COPY_BYTES:HEADER_BYTES]):
        found = _read_copy(copy)
        if found is None:
            continue
        schema, body = found
        if schema > SCHEMA:
            raise ValueError(
                f"{path} has schema {schema}, and this version of paradraft reads up to {SCHEMA}:"
                " upgrade it, or give another directory of draft files"
            )
        try:
            namespace, _ = msgpack.unpackb(body)
            return unpack_namespace(namespace)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} has a header that names no namespace: move it out of this directory") from error
    what = "its header is damaged" if content.startswith(MAGIC) else f"it begins with {content[: len(MAGIC)]!r}"
    raise ValueError(f"{path} is not a draft file of paradraft: {what}; move it out of this directory")


def begins_header(content: bytes) -> bool:
    """Whether a file of these bytes is a header that was cut: nothing was ever stored in it."""
    return len(content) < HEADER_BYTES and (content + MAGIC[len(content) :]).startswith(MAGIC)


def _read_copy(copy: bytes) -> tuple[int, bytes] | None:
    """Schema and content; None where a byte is not what was written."""
    if len(copy) < _START.size:
        return None
    magic, schema, length = _START.unpack_from(copy)
    end = _START.size + length
    if magic != MAGIC or end + _CHECK.size > len(copy) or _CHECK.unpack_from(copy, end)[0] != crc32(copy[:end]):
        return None
    return schema, copy[_START.size : end]
