"""Guesser: a drafter whose drafts are not verified but stored, at the end of the prompt they were made for."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from drafters.chains import no_draft
from drafters.guarded import guarded
from drafters.landmarks import Landmarks
from drafters.prefix_features import PrefixFeatures
from protos.draft import ANCHOR, Draft
from protos.draft_files import MAX_PATH, Continuation, DraftFiles, Namespace
from protos.interfaces import Drafter
from protos.messages import DraftChunk, DraftQuery, Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """How drafts are stored. pooling: see CachedConfig. own, prefix: columns of the features that the drafter reads,
    and of those that make a prefix feature; None where there are none. max_paths: of one draft. eos_ids end a text."""

    namespace: Namespace
    pooling: str
    own: slice | None
    prefix: slice | None
    max_paths: int
    eos_ids: frozenset[int]


@dataclass(slots=True, kw_only=True)
class _State:
    prompt_len: int
    features: PrefixFeatures | None
    text: array[int] = field(default_factory=lambda: array("i"))


class Guesser:
    """A Drafter that gives its engine nothing. `author` is asked in its place, and what it drafts is stored, behind
    what the target has written by then. Whoever runs the engine ends a request once that is done."""

    def __init__(self, author: Drafter, files: DraftFiles, guesses: Guesses) -> None:
        self._author = author
        self._files = files
        self._guesses = guesses
        self._requests: dict[str, _State] = {}
        self._done: list[str] = []
        self._error = ""

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        for query in queries:
            self._synchronise(query)
        drafts = {query.request_id: Draft(request_id=query.request_id, base_len=query.base_len) for query in queries}
        lacking: dict[str, int] = {}
        own = [replace(query, features=_columns(query, self._guesses.own)) for query in queries]
        for chunk in guarded(self._author, own):
            self._error = self._error or chunk.error
            if chunk.need_from is not None:
                lacking[chunk.request_id] = chunk.need_from
            drafts[chunk.request_id] = drafts[chunk.request_id].extend(chunk)
        for query in queries:
            state, draft, needs = (
                self._requests[query.request_id],
                drafts[query.request_id],
                lacking.get(query.request_id),
            )
            if state.features is not None and state.features.lacks(query):
                needs = min(state.features.need_from, query.base_len if needs is None else needs)
            elif draft.tokens:
                self._store(state, draft)
                self._done.append(query.request_id)
            yield no_draft(query, need_from=needs)

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:  # noqa: ARG002
        self._requests.pop(request_id, None)
        self._author.close(request_id)

    def take_done(self) -> list[str]:
        """Requests whose draft has been stored since the last call. RuntimeError where the author failed."""
        if self._error:
            raise RuntimeError(f"the drafter failed: {self._error}")
        done, self._done = self._done, []
        return done

    def _synchronise(self, query: DraftQuery) -> None:
        state = self._requests.get(query.request_id)
        if state is None:
            features = None if self._guesses.prefix is None else PrefixFeatures(self._guesses.pooling)
            state = self._requests[query.request_id] = _State(prompt_len=query.prompt_len, features=features)
        state.text[query.tail_start :] = array("i", query.tail)
        if state.features is not None:
            state.features.write(replace(query, features=_columns(query, self._guesses.prefix)))

    def _store(self, state: _State, draft: Draft) -> None:
        end = state.prompt_len
        landmarks = Landmarks(end)
        landmarks.extend(state.text[:end])
        prefix = landmarks.prefix(end, state.text, None if state.features is None else state.features.before(end))
        written = tuple(state.text[end:])
        # Each once: ways that part behind an end token are the same.
        ways = dict.fromkeys(self._ended(written + way)[:MAX_PATH] for way in _ways(draft))
        kept = list(ways)[: self._guesses.max_paths]
        self._files.add([Continuation(namespace=self._guesses.namespace, prefix=prefix, tokens=way) for way in kept])

    def _ended(self, tokens: Tokens) -> Tokens:
        """Up to the first end token."""
        end = next((place for place, token in enumerate(tokens, 1) if token in self._guesses.eos_ids), len(tokens))
        return tokens[:end]


def _columns(query: DraftQuery, columns: slice | None) -> NDArray[np.generic] | None:
    if query.features is None or columns is None:
        return None
    return query.features[:, columns]


def _ways(draft: Draft) -> list[Tokens]:
    """From the root to each leaf; the likeliest leaf first."""
    leaves = sorted(set(range(len(draft))) - set(draft.parents), key=lambda node: -draft.survival[node])
    return [_way(draft, leaf) for leaf in leaves]


def _way(draft: Draft, node: int) -> Tokens:
    tokens: list[int] = []
    while node != ANCHOR:
        tokens.append(draft.tokens[node])
        node = draft.parents[node]
    return tuple(reversed(tokens))
