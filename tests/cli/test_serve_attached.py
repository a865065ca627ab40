"""paradraft serve on a cluster that is there already: it takes its own application away again, and no other."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import ray
from ray import serve

from services.free_port import free_port
from tests.cli.serving import PARADRAFT, SMALL, START_TIMEOUT_S, STOP_TIMEOUT_S, started, wait_until
from tests.own_ray import own_ray

pytestmark = pytest.mark.ray


@pytest.fixture
def cluster(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment of a user of a running Ray."""
    with own_ray(num_cpus=2):
        yield environment | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
        serve.shutdown()


def refused(model: str, cluster: dict[str, str], *options: str) -> str:
    """What a second `serve` says, which must come to nothing."""
    command = [PARADRAFT, "serve", model, *options, *SMALL]
    done = subprocess.run(command, env=cluster, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_a_second_one_is_refused_and_takes_nothing_down(model: str, cluster: dict[str, str], tmp_path: Path) -> None:
    port, log = free_port("127.0.0.1"), tmp_path / "log"
    process = started(log, [model, "--port", str(port)], cluster)
    try:
        wait_until(lambda: "try: curl" in log.read_text(), process, log)
        url = f"http://127.0.0.1:{port}"
        assert f"at {url}/v1" in log.read_text()
        assert "application 'paradraft' is on this cluster already" in refused(model, cluster)
        other = str(free_port("127.0.0.1"))
        assert f"port is {other}, but Serve runs on this cluster already with port {port}" in refused(
            model, cluster, "--port", other
        )
        assert httpx.get(f"{url}/health", timeout=60).is_success
    finally:
        process.terminate()
        code = process.wait(timeout=STOP_TIMEOUT_S)
    assert code == 0, log.read_text()
    assert serve.status().applications == {}
    assert ray.nodes()[0]["Alive"]
