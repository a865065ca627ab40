"""gRPC endpoints: what the servers and clients here have in common, whatever they say to each other."""

from __future__ import annotations

import grpc

_FRAME_BYTES = 1024  # at most, around what a message carries

Options = list[tuple[str, int]]


def server_options(max_bytes: int) -> Options:
    """For messages that carry at most so many bytes; an address that is in use is refused, not shared."""
    return [*_limits(max_bytes), ("grpc.so_reuseport", 0)]


def listen(server: grpc.Server, address: str) -> str:
    """Serves `address` too: `host:port` (port 0 takes a free one) or `unix:/path`. Returns it, with its port.

    ValueError where it cannot be had.
    """
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise ValueError(f"cannot listen on {address!r}: {error}; give a free host:port or unix:/path") from error
    return address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"


def connect(address: str, max_bytes: int) -> grpc.Channel:
    """For messages that carry at most so many bytes. A pool that is shared would impose its own, longer backoff."""
    return grpc.insecure_channel(address, options=[*_limits(max_bytes), ("grpc.use_local_subchannel_pool", 1)])


def described(error: grpc.RpcError) -> str:
    """Such as `UNAVAILABLE: connection refused`."""
    return f"{error.code().name}: {error.details()}" if isinstance(error, grpc.Call) else str(error)


def _limits(max_bytes: int) -> Options:
    max_bytes += _FRAME_BYTES
    return [("grpc.max_receive_message_length", max_bytes), ("grpc.max_send_message_length", max_bytes)]
