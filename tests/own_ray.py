"""own_ray: a Ray for some tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import ray

from services.local_ray import start_ray


@contextmanager
def own_ray(num_cpus: int, namespace: str | None = None) -> Iterator[None]:
    """While this is entered. A process holds one: it ends before others start theirs. All that it and its actors leave
    on the disk goes with it.
    """
    with (
        tempfile.TemporaryDirectory(prefix="pd-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder,  # a short path
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", folder)  # of the actors, which are killed and leave their sockets there
        start_ray(
            num_cpus=num_cpus,
            namespace=namespace,
            include_dashboard=False,
            object_store_memory=128 * 2**20,
            _temp_dir=folder,
            log_to_driver=False,
        )
        try:
            yield
        finally:
            ray.shutdown()
