"""What drafters have in common: queries in waves, answers as chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protos.draft import Draft
from protos.messages import DraftChunk, DraftQuery


def waves(queries: Sequence[DraftQuery]) -> Iterator[list[DraftQuery]]:
    """The queries in order, cut so that no request comes twice in one wave."""
    wave: dict[str, DraftQuery] = {}
    for query in queries:
        if query.request_id in wave:
            yield list(wave.values())
            wave = {}
        wave[query.request_id] = query
    if wave:
        yield list(wave.values())


def chain(query: DraftQuery, tokens: Sequence[int], survival: Sequence[float], *, source: str) -> DraftChunk:
    """The answer to a query: tokens that follow each other."""
    return DraftChunk(
        request_id=query.request_id,
        base_len=query.base_len,
        tokens=tuple(tokens),
        parents=tuple(range(-1, len(tokens) - 1)),
        survival=tuple(survival),
        source=source,
    )


def whole(draft: Draft, *, source: str) -> DraftChunk:
    """The answer to a query: a draft, a chain or a tree, all at once."""
    return DraftChunk(
        request_id=draft.request_id,
        base_len=draft.base_len,
        tokens=draft.tokens,
        parents=draft.parents,
        survival=draft.survival,
        source=source,
    )


def no_draft(query: DraftQuery, *, need_from: int | None = None, error: str = "") -> DraftChunk:
    """The answer to a query that cannot be drafted for now."""
    return DraftChunk(request_id=query.request_id, base_len=query.base_len, need_from=need_from, error=error)
