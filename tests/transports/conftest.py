"""Servers and clients that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protos.interfaces import Drafter
from services.transports.grpc_client import GrpcDrafter
from services.transports.grpc_server import DraftServer


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/drafter"


@pytest.fixture
def serve() -> Iterator[Callable[[Drafter, str], DraftServer]]:
    servers: list[DraftServer] = []

    def start(drafter: Drafter, where: str) -> DraftServer:
        server = DraftServer(drafter, where)
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def dial() -> Iterator[Callable[..., GrpcDrafter]]:
    clients: list[GrpcDrafter] = []

    def start(where: str, *, stall_s: float = 30) -> GrpcDrafter:
        clients.append(GrpcDrafter(where, stall_s=stall_s))
        return clients[-1]

    yield start
    for client in clients:
        client.shutdown()
