"""guarded: a drafter's answers where its exceptions end, each query closed by a last chunk whatever happens."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from protos.interfaces import Drafter
from protos.messages import DraftChunk, DraftQuery, Tokens

logger = logging.getLogger(__name__)

MAX_ERROR_CHARS = 500


def guarded(drafter: Drafter, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
    """`drafter.draft(queries)`; after an exception the unanswered queries get an empty last chunk with the `error`.

    Their state in the drafter may be half made, so it is dropped, and `need_from=0` asks for the whole text again.
    """
    open_queries = {query.request_id: query for query in queries}
    try:
        for chunk in drafter.draft(queries):
            if chunk.last:
                open_queries.pop(chunk.request_id, None)
            yield chunk
        if open_queries:
            raise RuntimeError(f"the drafter left {len(open_queries)} of {len(queries)} queries unanswered")
    except Exception as error:
        logger.warning("drafter failed, decoding plainly: %s", error, exc_info=True)
        described = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
        for query in open_queries.values():
            forget(drafter, query.request_id)
            yield DraftChunk(request_id=query.request_id, base_len=query.base_len, need_from=0, error=described)


def forget(drafter: Drafter, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
    """Closes a request in a drafter that may be broken."""
    try:
        drafter.close(request_id, tail_start=tail_start, tail=tail)
    except Exception:
        logger.warning("drafter failed to close %s", request_id, exc_info=True)
