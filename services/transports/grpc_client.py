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
from collections import Counter
from collections.abc import Iterator, Sequence

import grpc

from protos import draft_pb2, draft_pb2_grpc
from protos.codec import MAX_BODY_BYTES, VERSION, Chunks, Close, Ending, FrameError, Message, Queries, decode, encode
from protos.interfaces import DrafterStatus
from protos.messages import DraftChunk, DraftQuery, Tokens
from services.grpc_stream import KeptStream
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
        self._outbox: Outbox = queue.SimpleQueue()  # of the stream that is open or is being opened
        self._counters: Counter[str] = Counter(errors=0, frames=0, reconnects=0, stalls=0)
        self._stream: KeptStream[draft_pb2.Frame] = KeptStream(
            self, address, max_bytes=MAX_BODY_BYTES, name="draft-reader"
        )
        self._stream.start()

    def send(self, queries: Sequence[DraftQuery]) -> None:
        if self._mailbox.late_for > self._stall_s and self._stream.hang_up():
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
        reason = (
            f"no answer for {late:.1f} s after the deadline" if late else self._stream.reason or self._health.reason
        )
        counters: dict[str, float] = {**self._counters, **self._mailbox.counters}
        counters["errors"] += self._health.failures
        return DrafterStatus(up=self._mailbox.is_open and not reason, reason=reason, counters=counters)

    def shutdown(self) -> None:
        self._stream.close()

    def wait_until_up(self, timeout_s: float) -> bool:
        """Blocks until the server has answered the stream; False where it has not within `timeout_s`."""
        return self._stream.wait_until_up(timeout_s)

    def begin_stream(self, channel: grpc.Channel) -> grpc.CallIterator[draft_pb2.Frame]:
        """See KeptStream, here and below."""
        self._outbox = queue.SimpleQueue()
        return draft_pb2_grpc.DraftingStub(channel).Stream(_frames(self._outbox))

    def stream_opened(self) -> None:
        self._mailbox.open()

    def stream_received(self, frame: draft_pb2.Frame) -> None:
        message = decode(frame.body, version=frame.version)
        if not isinstance(message, Chunks):
            raise FrameError(f"{type(message).__name__} goes from an engine to a drafter, not to an engine")
        self._counters["frames"] += 1
        self._mailbox.deliver(message.chunks)

    def stream_lost(self, *, was_open: bool) -> None:
        self._outbox.put(None)
        if was_open and not self._stream.ended:
            logger.warning("lost the drafter at %s, decoding plainly: %s", self._address, self._stream.reason)
            self._counters["errors"] += 1
            self._counters["reconnects"] += 1
        self._mailbox.lose()

    def _post(self, message: Message) -> bool:
        """Hands a message to the stream; False, and counted, where it cannot be sent."""
        try:
            self._outbox.put(draft_pb2.Frame(version=VERSION, body=encode(message)))
        except ValueError:
            logger.exception("a message cannot be sent, decoding plainly")
            self._counters["errors"] += 1
            return False
        return True


def _frames(outbox: Outbox) -> Iterator[draft_pb2.Frame]:
    while (frame := outbox.get()) is not None:
        yield frame
