"""Namespaces on disk: the name of a namespace's directory, and the bytes a draft file says it in."""

from __future__ import annotations

import hashlib
from dataclasses import astuple

import msgpack

from protos.draft_files import Namespace

MAX_BYTES = 896  # of a namespace as bytes


def directory_name(namespace: Namespace) -> str:
    """32 hexadecimal digits. Each field is hashed behind its length, so no two namespaces are the same bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for field in astuple(namespace):
        content = str(field).encode()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def pack_namespace(namespace: Namespace) -> bytes:
    """The fields as msgpack; ValueError where they are too long for the header of a draft file."""
    content: bytes = msgpack.packb(astuple(namespace))
    if len(content) > MAX_BYTES:
        raise ValueError(
            f"a namespace of {len(content)} bytes is over the limit of {MAX_BYTES}; shorten the name of the tenant"
            f" ({len(namespace.tenant)} characters) or of the feature ({len(namespace.feature)})"
        )
    return content


def unpack_namespace(content: bytes) -> Namespace:
    """The opposite of `pack_namespace`; ValueError for anything else."""
    tenant, fingerprint, tokenizer, feature, width = msgpack.unpackb(content)
    if not (all(isinstance(text, str) for text in (tenant, fingerprint, tokenizer, feature)) and type(width) is int):
        raise ValueError("the fields of a namespace are four texts and a number")
    return Namespace(tenant=tenant, fingerprint=fingerprint, tokenizer=tokenizer, feature=feature, width=width)
