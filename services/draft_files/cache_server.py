"""CacheServer: one pretriever behind gRPC addresses, for any number of drafters."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from protos import cache_pb2, cache_pb2_grpc
from protos.cache_codec import MAX_MESSAGE_BYTES
from services.draft_files.cache_calls import CacheCalls
from services.draft_files.pretriever_lanes import Pretriever
from services.draft_files.stats import DraftFilesStats
from services.grpc_endpoint import listen, server_options

logger = logging.getLogger(__name__)

SERVICE = cache_pb2.DESCRIPTOR.services_by_name["DraftFiles"].full_name
CLOSE_TIMEOUT_S = 10.0
_UNARY_THREADS = 16


class CacheServer:
    """Serves `pretriever` at `address`: `host:port` (port 0 takes a free one) or `unix:/path`.

    Questions of all streams that have gathered are looked up in one call. A message that nobody can understand ends its
    call with INVALID_ARGUMENT and the field; the others go on. Health is served under the standard gRPC health service,
    for "" and for `paradraft.DraftFiles`, and reflection tells tools what can be asked. Whoever reaches the address can
    read and write the files of any tenant: give it to drafters alone.
    """

    def __init__(self, pretriever: Pretriever, address: str, *, max_streams: int = 64) -> None:
        self._calls = CacheCalls(pretriever, max_streams=max_streams)
        self._threads = max_streams + _UNARY_THREADS
        self._health = health.HealthServicer()
        self._servers: list[grpc.Server] = []
        self._started = False
        self.address = self.listen(address)

    def listen(self, address: str) -> str:
        """Serves a further address as well. Returns it, with its port. ValueError where it cannot be had."""
        threads = ThreadPoolExecutor(self._threads, thread_name_prefix="draft-files")
        server = grpc.server(threads, options=server_options(MAX_MESSAGE_BYTES))
        cache_pb2_grpc.add_DraftFilesServicer_to_server(self._calls, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        address = listen(server, address)
        self._servers.append(server)
        if self._started:
            server.start()
        return address

    def stats(self) -> DraftFilesStats:
        """What the draft files hold and did, and this server with them."""
        return self._calls.stats()

    def start(self) -> None:
        """Answers from now on; returns at once."""
        self._started = True
        for server in self._servers:
            server.start()
        for service in ("", SERVICE):
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    def stop(self, grace_s: float = 0.2) -> None:
        """Ends all calls, and takes in what was received; idempotent. A pretriever that hangs is waited for a while."""
        self._health.enter_graceful_shutdown()
        for stopped in [server.stop(grace_s) for server in self._servers]:
            stopped.wait()
        if not self._calls.close(CLOSE_TIMEOUT_S):
            logger.warning("draft files did not take in within %g s what was received; it is lost", CLOSE_TIMEOUT_S)
