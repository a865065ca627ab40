"""ShelfIndex: what is searched of one shelf, and the two stages of the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cache_service.search.ngrams import ABSENT, ORDERS, Contexts, NGrams, padded
from cache_service.search.vectors import Cosines, Unit, Vectors
from cache_service.storage.row_table import Rows
from cache_service.storage.shelf import Shelf
from protos.draft_files import Prefix

BUILD_ROWS = 1 << 18  # contexts that are read at once
MAX_CROWD = 1024  # rows that end with the same n-gram, the newest, among which vectors choose
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


def ranked(match_lengths: Sequence[int], similarities: Sequence[float | None]) -> list[int]:
    """The order of candidates, the best first: more of the last tokens the same, then the higher cosine.

    Equals stay as they are, that is the newest first.
    """
    keys = [
        (-length, 1.0 if cosine is None else -cosine)
        for length, cosine in zip(match_lengths, similarities, strict=True)
    ]
    return sorted(range(len(keys)), key=keys.__getitem__)


class ShelfIndex:
    """One thread adds at a time; any thread searches. Made from what is on the shelf."""

    def __init__(self, shelf: Shelf, rules: Rules) -> None:
        self._shelf = shelf
        self._rules = rules
        self._ngrams = NGrams(shelf.alive)
        self._vectors = Vectors(shelf)
        self._num_dead = 0
        self._add_ngrams(shelf.live_rows())

    @property
    def kind(self) -> str:
        """How vectors are searched."""
        return self._vectors.kind

    @property
    def num_bytes(self) -> int:
        """Memory of the indexes."""
        return self._ngrams.num_bytes + self._vectors.num_bytes

    def settle(self) -> None:
        """Waits for the vector index that is being made, if one is."""
        self._vectors.settle()

    def close(self) -> None:
        """Lets go of the shelf: nothing is added or searched any more."""
        self._vectors.close()

    def add(self, rows: Rows) -> None:
        """Takes in rows that are above all rows there are."""
        self._add_ngrams(rows)
        self._vectors.add(rows)
        if self._num_dead > MIN_SHARE_DEAD * len(self._shelf):
            self._num_dead = 0
            self._ngrams.forget_dead()

    def _add_ngrams(self, rows: Rows) -> None:
        for start in range(0, len(rows), BUILD_ROWS):
            some = rows[start : start + BUILD_ROWS]
            self._ngrams.add(self._shelf.contexts(some), some)

    def note_dead(self, count: int) -> None:
        """So many rows live no more."""
        self._num_dead += count

    def search(self, prefix: Prefix, feature: Unit | None) -> list[Found]:
        """The rows that are most like a prefix, at most `max_hits`: first of all the prefix itself, if it is stored."""
        if self._rules.stages is Stages.NGRAMS:
            feature = None
        if self._rules.stages is Stages.VECTORS:
            lengths, cosines = self._nearest(prefix, feature)
        elif feature is None:
            found = self._ngrams.candidates(prefix.tokens, self._rules.max_candidates)
            lengths, cosines = found.with_newest(self._rules.max_candidates), {}
        else:
            lengths, cosines = self._in_two_stages(prefix, feature)
        itself = self._shelf.row_of(prefix.digest)
        if itself is not None:
            lengths[itself] = _in_steps(len(prefix.tokens))
            if feature is not None and itself not in cosines:
                cosines |= self._vectors.rank(feature, np.array([itself]))
        rows = list(lengths)
        order = ranked(list(lengths.values()), [cosines.get(row) for row in rows])
        best = [rows[i] for i in order if self._is_alike(cosines.get(rows[i]))]
        if itself is not None:
            best = [itself, *(row for row in best if row != itself)]
        return [
            Found(row=row, match_length=lengths[row], similarity=cosines.get(row))
            for row in best[: self._rules.max_hits]
        ]

    def _is_alike(self, cosine: float | None) -> bool:
        return cosine is None or cosine >= self._rules.min_similarity

    def _in_two_stages(self, prefix: Prefix, feature: Unit) -> tuple[dict[int, int], Cosines]:
        """Rows that share an n-gram, by how many tokens it has, and their cosines."""
        found = self._ngrams.candidates(prefix.tokens, self._rules.max_candidates)
        lengths, crowd = found.match_lengths, found.crowd
        cosines = self._vectors.rank(feature, np.fromiter(lengths, np.int64)) if lengths else {}
        hits = self._rules.max_hits
        if crowd is not None and sum(map(self._is_alike, cosines.values())) < hits:
            # More prefixes end so than are looked at one by one: only those with the nearest features are.
            sharing = self._ngrams.sharing(crowd, MAX_CROWD)
            near = self._vectors.nearest(feature, hits + len(lengths), among=sharing)
            lengths = dict.fromkeys(near, crowd.order) | lengths
            cosines = near | cosines
        return lengths, cosines

    def _nearest(self, prefix: Prefix, feature: Unit | None) -> tuple[dict[int, int], Cosines]:
        if feature is None:
            return {}, {}
        cosines = self._vectors.nearest(feature, self._rules.max_candidates)
        contexts = self._shelf.contexts(np.fromiter(cosines, np.int64))
        return dict(zip(cosines, _match_lengths(padded([prefix.tokens]), contexts), strict=True)), cosines


def _match_lengths(context: Contexts, contexts: Contexts) -> list[int]:
    """How many last tokens of each are those of `context`, in steps of the n-grams."""
    same = (context == contexts) & (context != ABSENT)
    lengths = np.zeros(len(contexts), np.int64)
    for order in reversed(ORDERS):
        lengths[same[:, -order:].all(axis=1)] = order
    found: list[int] = lengths.tolist()
    return found


def _in_steps(length: int) -> int:
    return next((order for order in ORDERS if order <= length), 0)
