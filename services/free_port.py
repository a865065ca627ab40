"""free_port: a TCP port that nobody listens at."""

from __future__ import annotations

import socket


def free_port(host: str, port: int = 0) -> int:
    """`port`, or one that is free where it is 0; ValueError where it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ValueError(f"cannot listen on {host}:{port} ({error.strerror}); choose another port") from error
        return int(probe.getsockname()[1])
