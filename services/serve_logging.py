"""log_through_serve: what our packages log appears where Ray Serve's own lines do, console and replica files."""

from __future__ import annotations

import logging

PACKAGES = ("services", "verifier", "modeling", "drafters")


def log_through_serve() -> None:
    """Call it in a replica. Serve sets up its own logger only; INFO of all others would be lost."""
    serve = logging.getLogger("ray.serve")
    for package in PACKAGES:
        logger = logging.getLogger(package)
        logger.handlers = serve.handlers
        logger.setLevel(serve.level)
        logger.propagate = False
