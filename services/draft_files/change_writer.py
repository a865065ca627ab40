"""ChangeWriter: brings additions and credits to a cache service, again and again until it has taken them."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter

import grpc

from protos import cache_pb2_grpc
from protos.cache_codec import pack_continuations, pack_credits
from protos.draft_files import Continuation
from services.draft_files.outgoing import Changes, Outgoing
from services.draft_files.packing import packed

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S = 10.0
PAUSE_S = 0.1
# After these the service may take the same changes later; after any other it would refuse them again.
TRIED_AGAIN = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class ChangeWriter:
    """A thread of its own. service: where to bring what is in `outgoing`, set before its stream is opened.

    Counters: additions, credits (that were taken), errors (changes that cannot be sent, or that the service failed at).
    """

    def __init__(self, outgoing: Outgoing) -> None:
        self.service: cache_pb2_grpc.DraftFilesStub | None = None
        self.counters: Counter[str] = Counter(additions=0, credits=0, errors=0)
        self._outgoing = outgoing
        threading.Thread(target=self._run, name="draft-files-writer", daemon=True).start()

    def _run(self) -> None:
        while changes := self._outgoing.next_changes():
            try:
                self._bring(changes)
            except grpc.RpcError as error:
                self._failed(changes, error)
            except ValueError:  # the channel was closed in this moment
                self._try_again(changes)
            except Exception:  # of whatever kind: without its writer the client would keep all for ever
                logger.exception("changes could not be brought to the cache service")
                self._lost(changes)

    def _bring(self, changes: Changes) -> None:
        assert self.service is not None, "a stream is open, so that there is a service"
        if isinstance(changes[0], Continuation):
            continuations, refused = packed(pack_continuations, changes)
            done, kind = self.service.Add(continuations, timeout=CALL_TIMEOUT_S), "additions"
        else:
            earned, refused = packed(pack_credits, changes)
            done, kind = self.service.Credit(earned, timeout=CALL_TIMEOUT_S), "credits"
        if done.failed:
            logger.error("the cache service failed at %d changes: %s", done.failed, done.error)
        self.counters["errors"] += refused + done.failed
        self.counters[kind] += len(changes) - refused - done.failed
        self._outgoing.taken()

    def _failed(self, changes: Changes, error: grpc.RpcError) -> None:
        if isinstance(error, grpc.Call) and error.code() in TRIED_AGAIN:
            self._try_again(changes)
        else:
            logger.error("the cache service refused %d changes: %s", len(changes), error)
            self._lost(changes)

    def _try_again(self, changes: Changes) -> None:
        self._outgoing.put_back(changes)
        time.sleep(PAUSE_S)

    def _lost(self, changes: Changes) -> None:
        self.counters["errors"] += len(changes)
        self._outgoing.taken()
