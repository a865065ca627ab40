"""The transports by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protos.interfaces import AsyncDrafter, Drafter
from services.transports.grpc_client import GrpcDrafter
from services.transports.local import LocalDrafter

TRANSPORTS: dict[str, Callable[[Any], AsyncDrafter]] = {"local": LocalDrafter, "grpc": GrpcDrafter}


def connect(transport: str, endpoint: Drafter | str) -> AsyncDrafter:
    """An engine's end of a transport. `endpoint`: the drafter itself for `local`, a server's address for `grpc`."""
    if transport not in TRANSPORTS:
        raise ValueError(f"transport {transport!r} is unknown; known: {', '.join(sorted(TRANSPORTS))}")
    if isinstance(endpoint, str) == (transport == "local"):
        needed = "a drafter in this process" if transport == "local" else "the address of a drafter"
        raise ValueError(f"transport {transport!r} needs {needed}, got {endpoint!r}")
    return TRANSPORTS[transport](endpoint)
