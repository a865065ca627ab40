"""Server: a real `paradraft serve` as a subprocess, from its start to its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from services.free_port import free_port

START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 60.0


class Server:
    """`with Server("smollm2-135m", "--dtype", "bf16") as server:` is ready inside; `ready_s` is what that took."""

    def __init__(self, model: str, *arguments: str) -> None:
        self.port = free_port("127.0.0.1")
        self.url = f"http://127.0.0.1:{self.port}"
        self.ready_s = 0.0
        program = Path(sys.executable).with_name("paradraft")
        self._command = [str(program), "serve", model, "--port", str(self.port), *arguments]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (lives as long as the server)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        start = time.perf_counter()
        self._process = subprocess.Popen(self._command, stdout=self._log, stderr=subprocess.STDOUT, text=True)
        try:
            self._wait(start)
        except BaseException:
            self._stop()
            raise
        self.ready_s = time.perf_counter() - start
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop()

    def _wait(self, start: float) -> None:
        while not self._healthy():
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"{' '.join(self._command)} ended by itself:\n{self._output()}")
            if time.perf_counter() - start > START_TIMEOUT_S:
                raise RuntimeError(f"no healthy answer within {START_TIMEOUT_S:.0f} s:\n{self._output()}")
            time.sleep(0.05)

    def _healthy(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=30).status_code == 200
        except httpx.TransportError:
            return False

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _output(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:]
