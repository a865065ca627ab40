"""CacheCalls: the calls of cache.proto over one pretriever."""

from __future__ import annotations

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

import grpc

from protos import cache_pb2, cache_pb2_grpc
from protos.cache_codec import pack_answers, unpack_continuations, unpack_credits, unpack_questions
from protos.cache_fields import MAX_TEXT
from protos.draft_files import Findings
from protos.field_error import FieldError
from services.draft_files.lane import Lane, Outcome
from services.draft_files.packing import packed
from services.draft_files.pretriever_lanes import Pretriever, PretrieverLanes
from services.draft_files.stats import DraftFilesStats

logger = logging.getLogger(__name__)

FULL = "too much waits already; try again later"

Item = TypeVar("Item")
Made = TypeVar("Made")
Message = TypeVar("Message")


class CacheCalls(cache_pb2_grpc.DraftFilesServicer):
    """Each call on a thread of gRPC's; the pretriever on its lanes.

    Counters, beside the lanes': bad_messages, streams.
    """

    def __init__(self, pretriever: Pretriever, *, max_streams: int) -> None:
        self._pretriever = pretriever
        self._lanes = PretrieverLanes(pretriever)
        self._streams = threading.Semaphore(max_streams)
        self._counting = threading.Lock()
        self._counters: Counter[str] = Counter(bad_messages=0, streams=0)

    def stats(self) -> DraftFilesStats:
        """Of the pretriever, and of the calls."""
        return DraftFilesStats.of(self._pretriever.metrics(), {**self._lanes.counters, **self._counters})

    def close(self, timeout_s: float) -> bool:
        """Takes in what was received; True where it was done in time."""
        return self._lanes.close(timeout_s)

    def LookUp(  # noqa: N802  the names are the .proto's, here and below
        self, request: cache_pb2.Questions, context: grpc.ServicerContext
    ) -> cache_pb2.Answers:
        return _answers(self._taken(self._lanes.look_ups, self._read(unpack_questions, request, context), context))

    def LookUps(  # noqa: N802
        self, request_iterator: Iterator[cache_pb2.Questions], context: grpc.ServicerContext
    ) -> Iterator[cache_pb2.Answers]:
        if not self._streams.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams are open; end one, or look up without")
        try:
            self._count("streams")
            context.send_initial_metadata(())  # tells the client that somebody is there before it asks
            caller = _Caller[Findings](context)
            for message in request_iterator:
                pending = self._lanes.look_ups.put(self._read(unpack_questions, message, context))
                outcome = Outcome(made=(), error=FULL) if pending is None else caller.wait(pending)
                if outcome is None:
                    return
                yield _answers(outcome)
        except grpc.RpcError:
            logger.info("a drafter went away")
        finally:
            self._streams.release()

    def Add(self, request: cache_pb2.Continuations, context: grpc.ServicerContext) -> cache_pb2.Done:  # noqa: N802
        return _done(self._taken(self._lanes.additions, self._read(unpack_continuations, request, context), context))

    def Credit(self, request: cache_pb2.Credits, context: grpc.ServicerContext) -> cache_pb2.Done:  # noqa: N802
        return _done(self._taken(self._lanes.credits, self._read(unpack_credits, request, context), context))

    def Stats(  # noqa: N802
        self,
        request: cache_pb2.StatsRequest,  # noqa: ARG002
        context: grpc.ServicerContext,  # noqa: ARG002
    ) -> cache_pb2.StatsAnswer:
        return self.stats().packed()

    def _count(self, event: str) -> None:
        with self._counting:
            self._counters[event] += 1

    def _read(
        self, unpack: Callable[[Message], list[Item]], message: Message, context: grpc.ServicerContext
    ) -> list[Item]:
        try:
            return unpack(message)
        except FieldError as error:
            self._count("bad_messages")
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    def _taken(self, lane: Lane[Item, Made], items: Sequence[Item], context: grpc.ServicerContext) -> Outcome[Made]:
        """What came of the items of a unary call."""
        pending = lane.put(items)
        if pending is None:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, FULL)
        outcome = _Caller[Made](context).wait(pending)
        if outcome is None:
            context.abort(grpc.StatusCode.CANCELLED, "the caller left")
        return outcome


class _Caller(Generic[Made]):
    """Whoever waits at the other end: once it has left, its thread is released, also from a pretriever that hangs."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._ready: queue.SimpleQueue[Future[Outcome[Made]] | None] = queue.SimpleQueue()
        if not context.add_callback(lambda: self._ready.put(None)):
            self._ready.put(None)

    def wait(self, pending: Future[Outcome[Made]]) -> Outcome[Made] | None:
        """None where the caller left; what it asked for is then cancelled, unless it has begun."""
        pending.add_done_callback(self._ready.put)
        done = self._ready.get()
        if done is None:
            pending.cancel()
            return None
        return done.result()


def _answers(outcome: Outcome[Findings]) -> cache_pb2.Answers:
    try:
        return pack_answers(outcome.made, outcome.error)
    except FieldError as error:
        message, _ = packed(pack_answers, outcome.made)
        message.error = f"findings cannot be sent: {error}"[:MAX_TEXT]
        return message


def _done(outcome: Outcome[None]) -> cache_pb2.Done:
    return cache_pb2.Done(failed=outcome.failed, error=outcome.error[:MAX_TEXT])
