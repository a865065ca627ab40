"""GrpcDraftFiles: a drafter's end of a cache service: questions over a stream, additions and credits by calls."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence

import grpc

from protos import cache_pb2, cache_pb2_grpc
from protos.cache_codec import MAX_MESSAGE_BYTES, pack_questions, unpack_answers
from protos.draft_files import Continuation, Credit, DraftFilesStatus, Findings, Question
from services.draft_files.change_writer import ChangeWriter
from services.draft_files.outgoing import Outgoing
from services.draft_files.packing import packed
from services.grpc_stream import KeptStream

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 5.0
MAX_ANSWERS = 4096


class GrpcDraftFiles:
    """A DraftFiles at `address`: `host:port`, `unix:/path`, or what tells one of them whenever it connects, if it does
    not raise a ConnectionError.

    It connects, and reconnects, by itself. While it cannot, questions are dropped and counted; additions and credits
    are kept, of too many the newest, and what the service had taken when it died may be given to it twice.
    stall_s: a service that owes findings for so long is given up, and the stream made anew.
    Counters: questions (that findings came for), additions, credits (that were taken), `dropped_` each of these and
    dropped_answers (that nobody fetched), errors (items that cannot be sent or that the service failed at), reconnects,
    stalls.
    """

    def __init__(self, address: str | Callable[[], str], *, stall_s: float = 5.0) -> None:
        self._stall_s = stall_s
        self._outgoing = Outgoing()
        self._writer = ChangeWriter(self._outgoing)
        self._answers: deque[Findings] = deque(maxlen=MAX_ANSWERS)
        self._counters: Counter[str] = Counter(questions=0, dropped_answers=0, errors=0, reconnects=0, stalls=0)
        self._failure = ""  # how questions failed in the last answer
        self._stream: KeptStream[cache_pb2.Answers] = KeptStream(
            self, address, max_bytes=MAX_MESSAGE_BYTES, name="draft-files-reader"
        )
        self._stream.start()

    def ask(self, questions: Sequence[Question]) -> None:
        if self._outgoing.owed_for > self._stall_s and self._stream.hang_up():
            self._counters["stalls"] += 1
        if questions:
            self._outgoing.ask(questions)

    def answers(self) -> list[Findings]:
        return [self._answers.popleft() for _ in range(len(self._answers))]

    def add(self, continuations: Sequence[Continuation]) -> None:
        self._outgoing.keep(continuations)

    def credit(self, earned: Sequence[Credit]) -> None:
        self._outgoing.keep(earned)

    def status(self) -> DraftFilesStatus:
        owed = self._outgoing.owed_for
        late = f"no findings for {owed:.1f} s" if owed > self._stall_s else ""
        ended = "closed" if self._stream.ended else ""
        reason = ended or late or self._stream.reason or self._failure
        counters = Counter(self._counters)
        counters.update(self._writer.counters)
        counters.update(self._outgoing.counters)
        return DraftFilesStatus(up=not reason, reason=reason, counters=dict(counters))

    def close(self) -> None:
        self._outgoing.close(0 if self._stream.ended else CLOSE_TIMEOUT_S)
        self._stream.close()

    def wait_until_up(self, timeout_s: float) -> bool:
        """Blocks until the service has answered the stream; False where it has not within `timeout_s`."""
        return self._stream.wait_until_up(timeout_s)

    def begin_stream(self, channel: grpc.Channel) -> grpc.CallIterator[cache_pb2.Answers]:
        """See KeptStream, here and below."""
        self._writer.service = cache_pb2_grpc.DraftFilesStub(channel)
        return self._writer.service.LookUps(self._questions(self._outgoing.stream))

    def stream_opened(self) -> None:
        self._failure = ""
        self._outgoing.opened()

    def stream_received(self, message: cache_pb2.Answers) -> None:
        findings = unpack_answers(message)
        self._failure = message.error
        self._counters["dropped_answers"] += max(len(self._answers) + len(findings) - MAX_ANSWERS, 0)
        self._answers.extend(findings)
        self._counters["questions"] += len(findings)
        self._counters["errors"] += max(self._outgoing.answered() - len(findings), 0)

    def stream_lost(self, *, was_open: bool) -> None:
        if was_open and not self._stream.ended:
            logger.warning("lost the cache service: %s", self._stream.reason)
            self._counters["reconnects"] += 1
        self._outgoing.lost()

    def _questions(self, stream: int) -> Iterator[cache_pb2.Questions]:
        while questions := self._outgoing.next_questions(stream):
            message, refused = packed(pack_questions, questions)
            self._outgoing.refused(refused, stream)
            if message.questions:
                yield message
