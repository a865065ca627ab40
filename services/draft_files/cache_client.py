"""GrpcDraftFiles: a drafter's end of a cache service: questions over a stream, additions and credits by calls."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence

import grpc

from protos import cache_pb2, cache_pb2_grpc
from protos.cache_codec import MAX_MESSAGE_BYTES, pack_questions, unpack_answers
from protos.draft_files import Continuation, Credit, DraftFilesStatus, Findings, Question
from protos.field_error import FieldError
from services.draft_files.change_writer import ChangeWriter
from services.draft_files.outgoing import Outgoing
from services.draft_files.packing import packed
from services.grpc_endpoint import FIRST_BACKOFF_S, LONGEST_BACKOFF_S, connect, described

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
        self._address = address
        self._stall_s = stall_s
        self._outgoing = Outgoing()
        self._writer = ChangeWriter(self._outgoing)
        self._answers: deque[Findings] = deque(maxlen=MAX_ANSWERS)
        self._counters: Counter[str] = Counter(questions=0, dropped_answers=0, errors=0, reconnects=0, stalls=0)
        self._call: grpc.CallIterator[cache_pb2.Answers] | None = None
        self._reason = "not yet connected"
        self._failure = ""  # how questions failed in the last answer
        self._ended = threading.Event()
        self._up = threading.Event()
        self._reader = threading.Thread(target=self._keep_connected, name="draft-files-reader", daemon=True)
        self._reader.start()

    def ask(self, questions: Sequence[Question]) -> None:
        if self._outgoing.owed_for > self._stall_s and self._hang_up():
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
        ended = "closed" if self._ended.is_set() else ""
        reason = ended or late or self._reason or self._failure
        counters = Counter(self._counters)
        counters.update(self._writer.counters)
        counters.update(self._outgoing.counters)
        return DraftFilesStatus(up=not reason, reason=reason, counters=dict(counters))

    def close(self) -> None:
        self._outgoing.close(0 if self._ended.is_set() else CLOSE_TIMEOUT_S)
        self._ended.set()
        self._hang_up()
        self._reader.join(timeout=CLOSE_TIMEOUT_S)

    def wait_until_up(self, timeout_s: float) -> bool:
        """Blocks until the service has answered the stream; False where it has not within `timeout_s`."""
        return self._up.wait(timeout_s)

    def _hang_up(self) -> bool:
        """Ends the stream, which makes the reader open another; False where there is none."""
        call, self._call = self._call, None
        return call is not None and bool(call.cancel())  # type: ignore[no-untyped-call]

    def _keep_connected(self) -> None:
        """The reader thread: one stream after the other, with growing pauses while none gives an answer."""
        backoff = FIRST_BACKOFF_S
        while not self._ended.is_set():
            received = self._counters["questions"]
            try:
                self._run_stream()
                self._reason = "the service ended the stream"
            except grpc.RpcError as error:
                self._reason = described(error)
            except ConnectionError as error:
                self._reason = str(error)
            except FieldError as error:
                self._reason = f"the service sent what cannot be read: {error}"
            except Exception as error:  # of whatever kind: without its reader the client would be lost for good
                logger.exception("reading from the cache service failed")
                self._reason = f"{type(error).__name__}: {error}"
            self._lost()
            backoff = FIRST_BACKOFF_S if self._counters["questions"] > received else min(backoff * 2, LONGEST_BACKOFF_S)
            self._ended.wait(backoff)

    def _run_stream(self) -> None:
        """One stream from handshake to end. Raises what ended it, where it did not end well."""
        address = self._address if isinstance(self._address, str) else self._address()
        with connect(address, MAX_MESSAGE_BYTES) as channel:
            service = cache_pb2_grpc.DraftFilesStub(channel)
            call = service.LookUps(self._sent(self._outgoing.stream))
            self._call = call
            try:
                if self._ended.is_set():
                    return
                call.initial_metadata()
                if call.is_active():
                    self._connected(service)
                for message in call:
                    self._received(message)
            finally:
                call.cancel()  # type: ignore[no-untyped-call]

    def _sent(self, stream: int) -> Iterator[cache_pb2.Questions]:
        while questions := self._outgoing.next_questions(stream):
            message, refused = packed(pack_questions, questions)
            self._outgoing.refused(refused, stream)
            if message.questions:
                yield message

    def _connected(self, service: cache_pb2_grpc.DraftFilesStub) -> None:
        self._reason = self._failure = ""
        self._writer.service = service
        self._outgoing.opened()
        self._up.set()

    def _received(self, message: cache_pb2.Answers) -> None:
        findings = unpack_answers(message)
        self._failure = message.error
        self._counters["dropped_answers"] += max(len(self._answers) + len(findings) - MAX_ANSWERS, 0)
        self._answers.extend(findings)
        self._counters["questions"] += len(findings)
        self._counters["errors"] += max(self._outgoing.answered() - len(findings), 0)

    def _lost(self) -> None:
        if self._up.is_set() and not self._ended.is_set():
            logger.warning("lost the cache service: %s", self._reason)
            self._counters["reconnects"] += 1
        self._up.clear()
        self._outgoing.lost()
