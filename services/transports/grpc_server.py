"""DraftServer: one drafter behind a gRPC address, for any number of engines."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from drafters.guarded import forget, guarded
from protos import draft_pb2, draft_pb2_grpc
from protos.codec import MAX_BODY_BYTES, VERSION, Chunks, Close, Ending, FrameError, Queries, decode, encode
from protos.interfaces import Drafter
from protos.messages import DraftChunk, DraftQuery
from services.grpc_endpoint import listen, server_options

logger = logging.getLogger(__name__)

SERVICE = "paradraft.Drafting"


class DraftServer:
    """Serves `drafter` at `address`: `host:port` (port 0 takes a free one) or `unix:/path`.

    All calls of the drafter happen on one thread. A stream that sends a frame nobody can read ends with
    INVALID_ARGUMENT and the reason; the others go on. When a stream ends, the requests it asked for are closed,
    and nothing is known of how they ended.
    Health is served under the standard gRPC health service, for "" and for `paradraft.Drafting`.
    """

    def __init__(self, drafter: Drafter, address: str, *, max_streams: int = 64) -> None:
        self._service = _Drafting(drafter)
        threads = ThreadPoolExecutor(max_streams, thread_name_prefix="draft-stream")
        self._server = grpc.server(threads, options=server_options(MAX_BODY_BYTES))
        draft_pb2_grpc.add_DraftingServicer_to_server(self._service, self._server)
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.address = listen(self._server, address)

    @property
    def counters(self) -> dict[str, float]:
        """Monotone since the start: errors (queries that the drafter failed at), bad frames, streams."""
        return dict(self._service.counters)

    def start(self) -> None:
        """Answers from now on; returns at once."""
        self._server.start()
        for service in ("", SERVICE):
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    def stop(self, grace_s: float = 0.2) -> None:
        """Ends all streams; idempotent. A drafter that hangs is not waited for."""
        self._health.enter_graceful_shutdown()
        self._server.stop(grace_s).wait()
        self._service.worker.shutdown(wait=False)


Made = queue.SimpleQueue[DraftChunk | None]


@dataclass(slots=True, eq=False)
class _Stream:
    """One engine's stream: the round that is being answered, and where its chunks arrive until a None."""

    ended: bool = False
    round: Future[None] | None = None
    made: Made = field(default_factory=queue.SimpleQueue)


class _Drafting(draft_pb2_grpc.DraftingServicer):
    """One `Stream` call a connected engine, each on a thread of its own; the drafter on `worker`."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self._owners: dict[str, _Stream] = {}
        self._lock = threading.Lock()
        self.worker = ThreadPoolExecutor(1, thread_name_prefix="drafter")
        self.counters: Counter[str] = Counter(errors=0, bad_frames=0, streams=0)

    def Stream(  # noqa: N802  the name is the .proto's
        self, request_iterator: Iterator[draft_pb2.Frame], context: grpc.ServicerContext
    ) -> Iterator[draft_pb2.Frame]:
        self.counters["streams"] += 1
        context.send_initial_metadata(())  # tells the client that somebody is there before it asks
        stream = _Stream()
        context.add_callback(lambda: self._abandon(stream))
        try:
            for frame in request_iterator:
                match decode(frame.body, version=frame.version):
                    case Queries(queries=queries):
                        yield from self._answer(queries, stream)
                    case Close(endings=endings):
                        self._close(endings)
                    case Chunks():
                        raise FrameError("frame kind 'chunks' goes from a drafter to an engine, not to a drafter")
        except FrameError as error:
            self.counters["bad_frames"] += 1
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except grpc.RpcError:
            logger.info("an engine went away")
        finally:
            self._abandon(stream)

    def _abandon(self, stream: _Stream) -> None:
        """Closes what a stream that has ended asked for, unless another stream has asked for it since.

        Its round is cancelled where it has not begun, and its thread released in any case: the drafter may hang.
        """
        with self._lock:
            stream.ended = True
            owned = [request_id for request_id, owner in self._owners.items() if owner is stream]
            if stream.round is not None:
                stream.round.cancel()
        stream.made.put(None)
        self._close([Ending(request_id=request_id) for request_id in owned])

    def _answer(self, queries: Sequence[DraftQuery], stream: _Stream) -> Iterator[draft_pb2.Frame]:
        """One frame for all chunks that are ready, as often as some are."""
        with self._lock:
            if stream.ended:
                return
            self._owners.update((query.request_id, stream) for query in queries)
            stream.round = self.worker.submit(self._draft, queries, stream.made)
        for chunks in _ready(stream.made):
            yield draft_pb2.Frame(version=VERSION, body=encode(Chunks(chunks=chunks)))

    def _draft(self, queries: Sequence[DraftQuery], made: Made) -> None:
        try:
            for chunk in guarded(self._drafter, queries):
                self.counters["errors"] += bool(chunk.error)
                made.put(chunk)
        finally:
            made.put(None)

    def _close(self, endings: Sequence[Ending]) -> None:
        with self._lock:
            for ending in endings:
                self._owners.pop(ending.request_id, None)
        with contextlib.suppress(RuntimeError):  # the worker is shut down, and the drafter's state with it
            for ending in endings:
                self.worker.submit(_let_go, self._drafter, ending)


def _let_go(drafter: Drafter, ending: Ending) -> None:
    forget(drafter, ending.request_id, tail_start=ending.tail_start, tail=ending.tail)


def _ready(made: Made) -> Iterator[tuple[DraftChunk, ...]]:
    """What has been made so far, as often as something has, until a None ends it."""
    while True:
        taken = [made.get()]
        while not made.empty():
            taken.append(made.get())
        chunks = tuple(chunk for chunk in taken if chunk is not None)
        if chunks:
            yield chunks
        if None in taken:
            return
