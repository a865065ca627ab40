"""What the gRPC tests have in common."""

from __future__ import annotations

import time
from collections.abc import Callable

from protos.interfaces import Drafter
from protos.messages import DraftChunk, DraftQuery
from services.transports.grpc_client import GrpcDrafter
from services.transports.grpc_server import DraftServer

Serve = Callable[[Drafter, str], DraftServer]
Dial = Callable[..., GrpcDrafter]
PROMPT, ANSWER = (1, 2, 3), (4, 5, 6, 7)
TEXT = PROMPT + ANSWER


def later(seconds: float = 30) -> float:
    """A deadline."""
    return time.monotonic() + seconds


def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = later()
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.005)


def ask(client: GrpcDrafter, one: DraftQuery) -> list[DraftChunk]:
    """One round."""
    client.send([one])
    return client.collect(later())
