"""One Ray and one `serve run config.yaml` for all integration tests: what a user starts, met by real clients.

Three applications: `main` is the built-in model with a drafter actor and API keys; `two` is a tiny random model on two
replicas, for what shows only there, and for what kills a replica; `files` is such a model with draft files.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import ray
import yaml

from benchmarks.harness.tiny import save_tiny
from services.free_port import free_port
from tests.own_ray import own_ray

MODEL = "smollm2-135m"
KEY_A, KEY_B = "key-of-a", "key-of-b"
SLOTS, QUEUE = 2, 2
START_TIMEOUT_S = 180.0


@dataclass(frozen=True, slots=True)
class Server:
    """Where the applications are."""

    base: str
    two: str
    files: str

    def get(self, path: str, *, base: str | None = None, key: str = KEY_A) -> httpx.Response:
        return httpx.get((base or self.base) + path, headers={"Authorization": f"Bearer {key}"}, timeout=60)

    def post(self, path: str, body: dict[str, Any], *, base: str | None = None, key: str = KEY_A) -> httpx.Response:
        url = (base or self.base) + path
        return httpx.post(url, json=body, headers={"Authorization": f"Bearer {key}"}, timeout=120)


@pytest.fixture(scope="package")  # a process holds one Ray: it ends before other packages start theirs
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tiny = save_tiny(tmp_path_factory.mktemp("tiny"))
    port = free_port("127.0.0.1")
    config = tmp_path_factory.mktemp("config") / "config.yaml"
    config.write_text(yaml.safe_dump(_config(port, str(tiny), str(tmp_path_factory.mktemp("drafts")))))
    os.environ.pop("RAY_ADDRESS", None)
    os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", OMP_WAIT_POLICY="passive")
    with own_ray(num_cpus=6, namespace="tests"):
        address = ray.get_runtime_context().gcs_address
        command = [str(Path(sys.executable).with_name("serve")), "run", "--address", address, str(config)]
        process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
        try:
            base = f"http://127.0.0.1:{port}"
            running = Server(base=base, two=f"{base}/two", files=f"{base}/files")
            _wait_until_up(running, process)
            yield running
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


@pytest.fixture(scope="package")
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.base + "/v1", api_key=KEY_A, max_retries=0, timeout=120)


def eventually(check: Callable[[], bool], *, within_s: float) -> bool:
    """Whether `check` becomes true in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.05)
    return check()


def _config(port: int, tiny: str, drafts: str) -> dict[str, Any]:
    bounds = {"dtype": "fp32", "threads": 1, "device": "cpu", "kv_cache_gib": 0.5}
    main = {
        "model": MODEL,
        "max_num_seqs": SLOTS,
        "max_waiting": QUEUE,
        "max_model_len": 2048,
        "speculative_config": {"method": "suffix", "num_speculative_tokens": 6},
        "api_keys": {KEY_A: "a", KEY_B: "b"},
    }
    two = {"model": tiny, "served_model_name": "tiny", "replicas": 2, "speculative_config": {"method": "suffix"}}
    files = two | {
        "speculative_config": {"method": "cached", "draft_files": drafts, "num_speculative_tokens": 8},
        "api_keys": {KEY_A: "a", KEY_B: "b"},
    }
    return {
        "proxy_location": "HeadOnly",
        "http_options": {"host": "127.0.0.1", "port": port},
        "applications": [
            _application("main", "/", bounds | main),
            _application("two", "/two", bounds | two),
            _application("files", "/files", bounds | files),
        ],
    }


def _application(name: str, prefix: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "route_prefix": prefix, "import_path": "services.app:build_app", "args": args}


def _wait_until_up(server: Server, process: subprocess.Popen[bytes]) -> None:
    def _up() -> bool:
        assert process.poll() is None, f"serve run ended with {process.returncode}"
        try:
            return all(
                httpx.get(base + "/health", timeout=30).is_success for base in (server.base, server.two, server.files)
            )
        except httpx.HTTPError:
            return False

    assert eventually(_up, within_s=START_TIMEOUT_S)
