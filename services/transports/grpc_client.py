"""GrpcDrafter: an engine's end of a bidirectional gRPC stream to a drafter.

The protocol, and what happens where it breaks:
- The engine's frames: `queries` (one a step, for all requests) and `close`, which carries the tail that came after a
  request's last query. The server's: `chunks`, in any order.
- A chunk answers the query of its (request_id, base_len). Nothing is numbered or acknowledged: what was not answered
  was not seen, and the engine sends that tail again with its next query.
- A stream that ends takes the drafter's state of its requests with it. The next query whose tail builds on that state
  is answered by `need_from`, and the engine sends the text from there.
- A drafter that only fails is asked at growing intervals.
- No stream, or a late one: queries are dropped and counted, and the engine decodes plainly without waiting.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import grpc

from protos import draft_pb2, draft_pb2_grpc
from protos.codec import MAX_BODY_BYTES, VERSION, Chunks, Close, Ending, FrameError, Message, Queries, decode, encode
from protos.interfaces import DrafterStatus
from protos.messages import DraftChunk, DraftQuery, Tokens
from services.grpc_endpoint import FIRST_BACKOFF_S, LONGEST_BACKOFF_S, connect, described
from services.transports.health import DrafterHealth
from services.transports.mailbox import Mailbox

logger = logging.getLogger(__name__)

Outbox = queue.SimpleQueue[draft_pb2.Frame | None]


class GrpcDrafter:
    """An AsyncDrafter at `address` (`host:port` or `unix:/path`). It connects, and reconnects, by itself.

    Counters, beside the mailbox's: errors (streams lost, messages that cannot be sent, queries that the drafter failed
    at), frames, reconnects, stalls.
    stall_s: a drafter that owes an answer for so long after its deadline is given up, and the stream made anew.
    """

    def __init__(self, address: str, *, stall_s: float = 2.0) -> None:
        self._address = address
        self._stall_s = stall_s
        self._mailbox = Mailbox()
        self._health = DrafterHealth()
        self._outbox: Outbox = queue.SimpleQueue()
        self._call: grpc.CallIterator[draft_pb2.Frame] | None = None
        self._counters: Counter[str] = Counter(errors=0, frames=0, reconnects=0, stalls=0)
        self._reason = f"not yet connected to {address}"
        self._ended = threading.Event()
        self._up = threading.Event()
        self._reader = threading.Thread(target=self._keep_connected, name="draft-reader", daemon=True)
        self._reader.start()

    def send(self, queries: Sequence[DraftQuery]) -> None:
        if self._mailbox.late_for > self._stall_s and self._hang_up():
            self._counters["stalls"] += 1
        if not queries or self._health.resting or not self._mailbox.expect(queries):
            return
        if not self._post(Queries(queries=tuple(queries))):
            for query in queries:
                self._mailbox.forget(query.request_id)

    def collect(self, deadline: float) -> list[DraftChunk]:
        chunks = self._mailbox.collect(deadline)
        self._health.judge(chunks)
        return chunks

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        self._mailbox.forget(request_id)
        if self._mailbox.is_open:
            self._post(Close(endings=(Ending(request_id=request_id, tail_start=tail_start, tail=tail),)))

    def status(self) -> DrafterStatus:
        late = self._mailbox.late_for
        reason = f"no answer for {late:.1f} s after the deadline" if late else self._reason or self._health.reason
        counters: dict[str, float] = {**self._counters, **self._mailbox.counters}
        counters["errors"] += self._health.failures
        return DrafterStatus(up=self._mailbox.is_open and not reason, reason=reason, counters=counters)

    def shutdown(self) -> None:
        self._ended.set()
        self._hang_up()
        self._reader.join(timeout=5)

    def wait_until_up(self, timeout_s: float) -> bool:
        """Blocks until the server has answered the stream; False where it has not within `timeout_s`."""
        return self._up.wait(timeout_s)

    def _post(self, message: Message) -> bool:
        """Hands a message to the stream; False, and counted, where it cannot be sent."""
        try:
            self._outbox.put(draft_pb2.Frame(version=VERSION, body=encode(message)))
        except ValueError:
            logger.exception("a message cannot be sent, decoding plainly")
            self._counters["errors"] += 1
            return False
        return True

    def _hang_up(self) -> bool:
        """Ends the stream, which makes the reader open another; False where there is none."""
        call, self._call = self._call, None
        return call is not None and bool(call.cancel())  # type: ignore[no-untyped-call]

    def _keep_connected(self) -> None:
        """The reader thread: one stream after the other, with growing pauses while none gives a frame."""
        backoff = FIRST_BACKOFF_S
        while not self._ended.is_set():
            received = self._counters["frames"]
            try:
                self._run_stream()
                self._reason = "the server ended the stream"
            except grpc.RpcError as error:
                self._reason = described(error)
            except FrameError as error:
                self._reason = f"the server sent a frame that cannot be read: {error}"
            except Exception as error:  # of whatever kind: without its reader the drafter would be lost for good
                logger.exception("reading from the drafter at %s failed", self._address)
                self._counters["errors"] += not self._mailbox.is_open  # else it counts as a stream lost
                self._reason = f"{type(error).__name__}: {error}"
            self._lost()
            backoff = FIRST_BACKOFF_S if self._counters["frames"] > received else min(backoff * 2, LONGEST_BACKOFF_S)
            self._ended.wait(backoff)

    def _run_stream(self) -> None:
        """One stream from handshake to end. Raises what ended it, where it did not end well."""
        outbox: Outbox = queue.SimpleQueue()
        with connect(self._address, MAX_BODY_BYTES) as channel:
            call = draft_pb2_grpc.DraftingStub(channel).Stream(_frames(outbox))
            self._call = call
            try:
                if self._ended.is_set():
                    return
                call.initial_metadata()
                if call.is_active():
                    self._connected(outbox)
                for frame in call:
                    self._received(frame)
            finally:
                call.cancel()  # type: ignore[no-untyped-call]
                outbox.put(None)

    def _connected(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._reason = ""
        self._mailbox.open()
        self._up.set()

    def _received(self, frame: draft_pb2.Frame) -> None:
        message = decode(frame.body, version=frame.version)
        if not isinstance(message, Chunks):
            raise FrameError(f"{type(message).__name__} goes from an engine to a drafter, not to an engine")
        self._counters["frames"] += 1
        self._mailbox.deliver(message.chunks)

    def _lost(self) -> None:
        if self._mailbox.is_open and not self._ended.is_set():
            logger.warning("lost the drafter at %s, decoding plainly: %s", self._address, self._reason)
            self._counters["errors"] += 1
            self._counters["reconnects"] += 1
        self._up.clear()
        self._mailbox.lose()


def _frames(outbox: Outbox) -> Iterator[draft_pb2.Frame]:
    while (frame := outbox.get()) is not None:
        yield frame
