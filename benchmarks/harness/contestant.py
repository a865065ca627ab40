"""Contestant: one engine of the race, in its own process with its own Python."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modeling.provenance import ROOT
from protos.messages import Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How to start a contestant. `batched` False: it cannot serve several requests at a time."""

    name: str
    worker: str
    python: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    batched: bool = True


class Contestant:
    """A running worker; `ask` blocks until all prompts are answered."""

    def __init__(self, entry: Entry, *, dtype: str, threads: int, concurrency: int) -> None:
        self.entry = entry
        settings = {
            "model": entry.model,
            "dtype": dtype,
            "threads": threads,
            "concurrency": concurrency,
            "options": entry.options,
        }
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
        self._log = Path(tempfile.mkstemp(prefix=f"{entry.worker}-", suffix=".log")[1])
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [entry.python, "-m", f"benchmarks.peer_workers.{entry.worker}", json.dumps(settings)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._read()

    def ask(self, prompts: Sequence[Tokens], *, concurrency: int, max_tokens: int) -> tuple[float, list[Tokens]]:
        """(seconds, answers), timed by the worker: the pipe is not in it."""
        question = {"prompts": prompts, "concurrency": concurrency, "max_tokens": max_tokens}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        reply = self._read()
        return reply["seconds"], [tuple(answer) for answer in reply["answers"]]

    def close(self) -> None:
        """Ends the worker by ending its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.unlink()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise RuntimeError(f"{self.entry.name} ended by itself:\n{self._log.read_text()[-3000:]}")
        reply: dict[str, Any] = json.loads(line)
        return reply
