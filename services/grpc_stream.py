"""KeptStream: a client's end of a gRPC stream, which is opened anew whenever it ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import grpc

from protos.codec import FrameError
from protos.field_error import FieldError
from services.grpc_endpoint import connect, described

FIRST_BACKOFF_S = 0.05  # before a stream that was lost is opened again; doubled while that brings nothing
LONGEST_BACKOFF_S = 2.0
CLOSE_TIMEOUT_S = 5.0

logger = logging.getLogger(__name__)

Received = TypeVar("Received")


class StreamOwner(Protocol[Received]):
    """Whose stream it is; called by the stream's thread alone."""

    def begin_stream(self, channel: grpc.Channel) -> grpc.CallIterator[Received]:
        """Makes the call."""
        ...

    def stream_opened(self) -> None:
        """The server has answered the call, so that somebody is there."""
        ...

    def stream_received(self, message: Received) -> None:
        """FrameError or FieldError where it cannot be read, which ends the stream."""
        ...

    def stream_lost(self, *, was_open: bool) -> None:
        """The stream is over, for `reason`, or could not be opened."""
        ...


class KeptStream(Generic[Received]):
    """Keeps `owner` connected to the server at `address`. An address that is a callable is asked before each stream,
    and may raise a ConnectionError. Between two streams are growing pauses, while none brings a message.

    reason: why none is open, empty where one is.
    """

    def __init__(
        self, owner: StreamOwner[Received], address: str | Callable[[], str], *, max_bytes: int, name: str
    ) -> None:
        self._owner = owner
        self._address = address
        self._max_bytes = max_bytes
        self.reason = f"not yet connected to {address}" if isinstance(address, str) else "not yet connected"
        self._call: grpc.CallIterator[Received] | None = None
        self._num_received = 0
        self._ended = threading.Event()
        self._up = threading.Event()
        self._reader = threading.Thread(target=self._keep, name=name, daemon=True)

    def start(self) -> None:
        """Once, when the owner is ready for it; returns at once."""
        self._reader.start()

    @property
    def ended(self) -> bool:
        """Whether it was closed."""
        return self._ended.is_set()

    def wait_until_up(self, timeout_s: float) -> bool:
        """Blocks until the server has answered; False where it has not within `timeout_s`."""
        return self._up.wait(timeout_s)

    def hang_up(self) -> bool:
        """Ends the stream, so that another is opened; False where there is none."""
        call, self._call = self._call, None
        return call is not None and bool(call.cancel())  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """For good; waits up to CLOSE_TIMEOUT_S for the stream's thread. Idempotent."""
        self._ended.set()
        self.hang_up()
        self._reader.join(timeout=CLOSE_TIMEOUT_S)

    def _keep(self) -> None:
        backoff = FIRST_BACKOFF_S
        while not self._ended.is_set():
            before = self._num_received
            self.reason = self._run()
            was_open = self._up.is_set()
            self._up.clear()
            self._owner.stream_lost(was_open=was_open)
            backoff = FIRST_BACKOFF_S if self._num_received > before else min(backoff * 2, LONGEST_BACKOFF_S)
            self._ended.wait(backoff)

    def _run(self) -> str:
        """One stream, from the handshake to what ended it."""
        try:
            with connect(self._address if isinstance(self._address, str) else self._address(), self._max_bytes) as to:
                self._read(self._owner.begin_stream(to))
        except grpc.RpcError as error:
            return described(error)
        except ConnectionError as error:
            return str(error)
        except (FrameError, FieldError) as error:
            return f"the server sent what cannot be read: {error}"
        except Exception as error:  # of whatever kind: without its reader the owner would be lost for good
            logger.exception("%s failed", self._reader.name)
            return f"{type(error).__name__}: {error}"
        return "the server ended the stream"

    def _read(self, call: grpc.CallIterator[Received]) -> None:
        self._call = call
        try:
            if self._ended.is_set():
                return
            call.initial_metadata()
            if call.is_active():
                self._owner.stream_opened()
                self.reason = ""
                self._up.set()
            for message in call:
                self._owner.stream_received(message)
                self._num_received += 1
        finally:
            call.cancel()  # type: ignore[no-untyped-call]
