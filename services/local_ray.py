"""start_ray: a Ray of this process's own, on this machine."""

from __future__ import annotations

import logging
import os
from typing import Any

import ray

logger = logging.getLogger(__name__)

NICENESS_VARIABLE = "RAY_worker_niceness"
# Ray's own default is 15, at which a verifier gets next to nothing of a core that anything else computes on.
WORKER_NICENESS = "0"
ATTEMPTS = 2


def start_ray(**options: Any) -> None:
    """As `ray.init`, with workers of WORKER_NICENESS unless the environment says otherwise.

    Now and then a node of Ray's hangs before it writes its first line (docs/LOG.md),
    so it gets a second attempt; what the first left running ends with this process. RuntimeError where that fails too.
    """
    os.environ.setdefault(NICENESS_VARIABLE, WORKER_NICENESS)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            ray.init(**options)
        except Exception as error:
            if type(error) is not Exception:  # Ray's own way to say that its node was not up within 30 s
                raise
            if attempt == ATTEMPTS:
                raise RuntimeError(f"Ray did not start: {error} A busy machine is often why; try again") from error
            logger.warning("Ray did not start, it is tried once more: %s", error)
        else:
            return
