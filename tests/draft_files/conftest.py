"""Servers and clients that end with their test, and both kinds of draft files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protos.draft_files import DraftFiles
from services.draft_files.cache_client import GrpcDraftFiles
from services.draft_files.cache_server import CacheServer
from services.draft_files.local import LocalDraftFiles
from services.draft_files.pretriever_lanes import Pretriever

Serve = Callable[[Pretriever, str], CacheServer]
Dial = Callable[..., GrpcDraftFiles]
Open = Callable[[Pretriever], DraftFiles]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/cache"


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[CacheServer] = []

    def start(pretriever: Pretriever, where: str) -> CacheServer:
        server = CacheServer(pretriever, where)
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def dial() -> Iterator[Dial]:
    clients: list[GrpcDraftFiles] = []

    def start(where: str | Callable[[], str], *, stall_s: float = 30) -> GrpcDraftFiles:
        clients.append(GrpcDraftFiles(where, stall_s=stall_s))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture(params=["local", "grpc"])
def open_files(request: pytest.FixtureRequest, serve: Serve, dial: Dial, address: str) -> Iterator[Open]:
    """Draft files over a pretriever, in this process or behind a server."""
    opened: list[LocalDraftFiles] = []

    def start(pretriever: Pretriever) -> DraftFiles:
        if request.param == "local":
            opened.append(LocalDraftFiles(pretriever))
            return opened[-1]
        client = dial(serve(pretriever, address).address)
        assert client.wait_until_up(30)
        return client

    yield start
    for files in opened:
        files.close()
