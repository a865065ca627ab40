"""EngineLoop: an engine in a thread of its own, asyncio in front of it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from protos.messages import Finish, Request, Verdict
from verifier.engine import Engine
from verifier.engine_stats import EngineStats

logger = logging.getLogger(__name__)

STUCK_S = 120.0


@dataclass(frozen=True, slots=True)
class _Subscriber:
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Verdict]

    def deliver(self, verdict: Verdict) -> None:
        try:
            self.loop.call_soon_threadsafe(self.queue.put_nowait, verdict)
        except RuntimeError:  # its event loop is closed: nobody listens any more
            logger.info("dropped a verdict of %s: its event loop is closed", verdict.request_id)


class EngineLoop:
    """Steps while there is work and sleeps otherwise."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._subscribers: dict[str, _Subscriber] = {}
        self._wake = threading.Event()
        self._stopping = False
        self._step_began: float | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    async def generate(self, request: Request) -> AsyncIterator[Verdict]:
        """Verdicts of one request up to its finish. Closing or cancelling it aborts the request.

        ValueError and QueueFullError (see Engine.add) come before the first verdict; RuntimeError where the engine is
        down.
        """
        self.check_health()
        subscriber = _Subscriber(asyncio.get_running_loop(), asyncio.Queue())
        if request.request_id in self._subscribers:
            raise ValueError(f"request_id {request.request_id!r} is running already; give another")
        self._subscribers[request.request_id] = subscriber
        finished = False
        try:
            self._engine.add(request)
            self._wake.set()
            while not finished:
                verdict = await subscriber.queue.get()
                finished = verdict.finish is not None
                yield verdict
        finally:
            self._subscribers.pop(request.request_id, None)
            if not finished:
                self._engine.abort(request.request_id)
                self._wake.set()

    def stats(self) -> EngineStats:
        """See Engine.stats."""
        return self._engine.stats()

    def check_health(self) -> None:
        """RuntimeError where the thread has ended, or one step has lasted longer than STUCK_S."""
        if self._failure is not None:
            raise RuntimeError(f"the engine has failed: {self._failure!r}") from self._failure
        if not self._thread.is_alive():
            raise RuntimeError("the engine's thread is not running")
        began = self._step_began
        if began is not None and time.monotonic() - began > STUCK_S:
            raise RuntimeError(f"the engine has been in one step for over {STUCK_S:.0f} s")

    def shutdown(self) -> None:
        """Stops after the step that is running; requests still running end as aborted."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._engine.shutdown()
        self._end_all(Finish.ABORT, None)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._wake.wait()
                self._wake.clear()
                while self._engine.has_work and not self._stopping:
                    self._step_began = time.monotonic()
                    for verdict in self._engine.step():
                        self._deliver(verdict)
                    self._step_began = None
        except BaseException as error:
            self._failure = error
            logger.exception("the engine has failed")
            self._end_all(Finish.ERROR, f"the engine has failed: {error!r}")
            raise

    def _deliver(self, verdict: Verdict) -> None:
        subscriber = self._subscribers.get(verdict.request_id)
        if subscriber is not None:
            subscriber.deliver(verdict)

    def _end_all(self, finish: Finish, error: str | None) -> None:
        for request_id in list(self._subscribers):
            self._deliver(Verdict(request_id=request_id, finish=finish, error=error))
