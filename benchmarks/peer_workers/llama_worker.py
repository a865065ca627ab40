"""llama.cpp in the race: its own server on the loopback. `model` is a GGUF file; `options`: {"server": path}."""

from __future__ import annotations

import atexit
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from benchmarks.peer_workers.protocol import Generate, Prompts, Settings, serve

START_TIMEOUT_S = 120.0


def build(settings: Settings) -> Generate:
    """Starts the server with a slot for each request; it ends with this process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    slots = settings.concurrency
    command = [settings.options["server"], "-m", settings.model, "--host", "127.0.0.1", "--port", str(port)]
    limits = ["-t", str(settings.threads), "--parallel", str(slots), "-c", str(2048 * slots)]
    server = subprocess.Popen([*command, *limits], stdout=sys.stderr)
    atexit.register(server.terminate)
    url = f"http://127.0.0.1:{port}"
    _wait(url, server)

    def generate(prompts: Prompts, concurrency: int, max_tokens: int) -> Prompts:
        with ThreadPoolExecutor(concurrency) as pool:
            return list(pool.map(partial(_ask, url, max_tokens=max_tokens), prompts))

    return generate


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
    raise RuntimeError(f"llama.cpp's server did not come up within {START_TIMEOUT_S:.0f} s")


def _ask(url: str, ids: list[int], *, max_tokens: int) -> list[int]:
    body: dict[str, Any] = {
        "prompt": ids,
        "n_predict": max_tokens,
        "temperature": 0,
        "cache_prompt": False,
        "ignore_eos": True,
        "return_tokens": True,
    }
    request = urllib.request.Request(
        f"{url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        tokens: list[int] = json.loads(response.read())["tokens"]
    return tokens


if __name__ == "__main__":
    serve(build)
