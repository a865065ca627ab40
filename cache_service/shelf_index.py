"""ShelfIndex: what is searched of one shelf, and the two stages of the search."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from cache_service.hash_index import Rows
from cache_service.ngrams import ABSENT, ORDERS, Contexts, NGrams, padded
from cache_service.shelf import Shelf
from cache_service.vectors import Cosines, Unit, Vectors
from protos.draft_files import Prefix

BUILD_ROWS = 65536  # contexts that are read at once
MIN_SHARE_DEAD = 0.25  # of all rows, before the n-grams forget the dead


class Stages(StrEnum):
    """What finds stored prefixes: n-grams, vectors, or vectors among what n-grams leave."""

    NGRAMS = "ngrams"
    VECTORS = "vectors"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """stages: see there. min_similarity: cosine below which a prefix is not alike. max_candidates: after stage 1.

    max_hits: of one look-up.
    """

    stages: Stages
    min_similarity: float
    max_candidates: int
    max_hits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A row that is alike. match_length, similarity: see Hit."""

    row: int
    match_length: int
    similarity: float | None


def ranked(match_lengths: NDArray[np.int64], similarities: Cosines) -> NDArray[np.int64]:
    """The order of candidates, the best first: more of the last tokens the same, then the higher cosine.

    Equals stay as they are, that is the newest first.
    """
    return np.lexsort((-np.nan_to_num(similarities, nan=-1.0), -match_lengths))


class ShelfIndex:
    """One thread adds at a time; any thread searches. Made from what is on the shelf."""

    def __init__(self, shelf: Shelf, rules: Rules) -> None:
        self._shelf = shelf
        self._rules = rules
        self._ngrams = NGrams(shelf.alive)
        self._vectors = Vectors(shelf)
        self._num_dead = 0
        self.add(shelf.live_rows())

    @property
    def kind(self) -> str:
        """How vectors are searched."""
        return self._vectors.kind

    @property
    def num_bytes(self) -> int:
        """Memory of the indexes."""
        return self._ngrams.num_bytes

    def add(self, rows: Rows) -> None:
        """Takes in rows that are above all rows there are."""
        for start in range(0, len(rows), BUILD_ROWS):
            some = rows[start : start + BUILD_ROWS]
            self._ngrams.add(self._shelf.contexts(some), some)
        if self._num_dead > MIN_SHARE_DEAD * len(self._shelf):
            self._num_dead = 0
            self._ngrams.forget_dead()

    def note_dead(self, count: int) -> None:
        """So many rows live no more."""
        self._num_dead += count

    def search(self, prefix: Prefix, feature: Unit | None) -> list[Found]:
        """The rows that are most like a prefix, at most `max_hits`: first of all the prefix itself, if it is stored."""
        if self._rules.stages is Stages.NGRAMS:
            feature = None
        itself = self._shelf.row_of(prefix.digest)
        rows, lengths = self._candidates(prefix, feature)
        if itself is not None:
            others = rows != itself
            rows = np.concatenate([[itself], rows[others]])
            lengths = np.concatenate([[_in_steps(len(prefix.tokens))], lengths[others]])
        if not len(rows):
            return []
        similarities = np.full(len(rows), np.nan, np.float32)
        if feature is not None:
            similarities = self._vectors.rank(feature, rows)
        alike = ~(similarities < self._rules.min_similarity)  # also where there is none
        if itself is not None:
            alike[0] = True
            lengths[0] += 1  # before all others
        order = ranked(lengths, similarities)
        best = order[alike[order]][: self._rules.max_hits].tolist()
        if itself is not None:
            lengths[0] -= 1
        return [
            Found(row=int(rows[i]), match_length=int(lengths[i]), similarity=_number(similarities[i])) for i in best
        ]

    def _candidates(self, prefix: Prefix, feature: Unit | None) -> tuple[Rows, NDArray[np.int64]]:
        """Stage 1: rows that may be alike, and how many of their last tokens are the same."""
        limit = self._rules.max_candidates
        if self._rules.stages is Stages.VECTORS:
            if feature is None:
                return np.empty(0, np.int64), np.empty(0, np.int64)
            rows, _ = self._vectors.nearest(feature, limit)
            return rows, _match_lengths(padded([prefix.tokens]), self._shelf.contexts(rows))
        found = self._ngrams.candidates(prefix.tokens, limit)
        if found.crowded is None or feature is None:
            return found.rows, found.match_lengths
        # More prefixes end so than can be looked at one by one: the nearest of them instead of the newest.
        longer = found.match_lengths > found.crowded
        same = self._ngrams.sharing(prefix.tokens, found.crowded, limit=len(self._shelf))
        rows, _ = self._vectors.nearest(
            feature, limit - int(longer.sum()), among=np.setdiff1d(same, found.rows[longer])
        )
        lengths = np.concatenate([found.match_lengths[longer], np.full(len(rows), found.crowded)])
        return np.concatenate([found.rows[longer], rows]), lengths


def _match_lengths(context: Contexts, contexts: Contexts) -> NDArray[np.int64]:
    """How many last tokens of each are those of `context`, in steps of the n-grams."""
    same = (context == contexts) & (context != ABSENT)
    lengths = np.zeros(len(contexts), np.int64)
    for order in reversed(ORDERS):
        lengths[same[:, -order:].all(axis=1)] = order
    return lengths


def _in_steps(length: int) -> int:
    return next((order for order in ORDERS if order <= length), 0)


def _number(similarity: np.float32) -> float | None:
    return None if np.isnan(similarity) else float(similarity)
