"""NGrams: stored prefixes by their last tokens, which discards at once what cannot be alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from cache_service.storage.hash_index import Hashes, HashIndex
from cache_service.storage.row_table import Rows
from protos.draft_files import CONTEXT
from protos.messages import Tokens

ORDERS = (32, 16, 8, 4)  # tokens of an n-gram, the longest first
ABSENT = -1  # fills a context's places before the first token

Contexts = NDArray[np.int32]  # [n, CONTEXT], right-aligned


@dataclass(frozen=True, slots=True)
class Gram:
    """An n-gram of `order` tokens."""

    order: int
    index: HashIndex
    hash_: np.uint64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """match_lengths: of rows that end with the same n-gram, its order; the longest first, then the newest.

    crowd: the n-gram that more rows share than were asked for, None where there is none. newest: rows of it.
    """

    match_lengths: dict[int, int]
    crowd: Gram | None = None
    newest: Rows = field(default_factory=lambda: np.empty(0, np.int64))

    def with_newest(self, limit: int) -> dict[int, int]:
        """match_lengths, filled up to `limit` with the newest of the crowd."""
        if self.crowd is None:
            return self.match_lengths
        rows = self.match_lengths | dict.fromkeys(self.newest.tolist(), self.crowd.order) | self.match_lengths
        return dict(islice(rows.items(), limit))


class NGrams:
    """One thread writes at a time; readers need no lock."""

    def __init__(self, lives: Callable[[Rows], NDArray[np.bool_]]) -> None:
        self._lives = lives
        self._indexes = tuple(HashIndex() for _ in ORDERS)

    @property
    def num_bytes(self) -> int:
        """Memory of all orders."""
        return sum(index.num_bytes for index in self._indexes)

    def add(self, contexts: Contexts, rows: Rows) -> None:
        """Adds rows above all rows there are."""
        hashes = _hashes(contexts.astype(np.int64))
        for order, index in zip(ORDERS, self._indexes, strict=True):
            long_enough = contexts[:, -order] != ABSENT
            index.add(hashes[order][long_enough], rows[long_enough])

    def forget_dead(self) -> None:
        """Gives back the memory of rows that live no more."""
        for index in self._indexes:
            index.keep(self._lives)

    def candidates(self, tokens: Tokens, limit: int) -> Candidates:
        """Living rows that share n-grams with the end of `tokens`, down to one that more than `limit` rows share."""
        grams: list[tuple[Gram, Rows]] = []
        for gram in self._grams(tokens):
            # Rows that share a longer n-gram share this one too, so they are found again.
            found = gram.index.find(gram.hash_, limit + 1)
            if not len(found):
                break
            grams.insert(0, (gram, found))
        if grams:
            lives = self._lives(np.concatenate([found for _, found in grams]))
            if not lives.all():
                grams = self._living(grams, lives, limit)
        match_lengths: dict[int, int] = {}
        for gram, found in grams:
            if len(found) > limit:
                return Candidates(match_lengths=match_lengths, crowd=gram, newest=found)
            for row in found.tolist():
                match_lengths.setdefault(row, gram.order)
        return Candidates(match_lengths=match_lengths)

    def _living(self, grams: list[tuple[Gram, Rows]], lives: NDArray[np.bool_], limit: int) -> list[tuple[Gram, Rows]]:
        """The same without dead rows; where these took the place of older ones, with the older ones."""
        living, start = [], 0
        for gram, found in grams:
            stop = start + len(found)
            living.append((gram, self.sharing(gram, limit + 1) if len(found) > limit else found[lives[start:stop]]))
            start = stop
        return living

    def sharing(self, gram: Gram, limit: int) -> Rows:
        """Up to `limit` living rows that end with an n-gram, the newest first."""
        wanted = limit
        while True:  # the dead among the newest make it look at twice as many
            found = gram.index.find(gram.hash_, wanted)
            living = found[self._lives(found)]
            if len(living) >= limit or len(found) < wanted:
                return living[:limit]
            wanted *= 2

    def _grams(self, tokens: Tokens) -> Iterator[Gram]:
        """The shortest first: where nothing ends with it, nothing ends with a longer one."""
        end = np.array([tokens[-CONTEXT:]], np.int64)
        hashes = _hashes(end)
        for order, index in zip(reversed(ORDERS), reversed(self._indexes), strict=True):
            if order > end.shape[1]:
                return
            yield Gram(order, index, hashes[order][0])


def padded(contexts: list[Tokens]) -> Contexts:
    """Last tokens as an array: right-aligned, ABSENT before the first."""
    rows = np.full((len(contexts), CONTEXT), ABSENT, np.int32)
    for row, tokens in zip(rows, contexts, strict=True):
        if tokens:
            row[-len(tokens[-CONTEXT:]) :] = tokens[-CONTEXT:]
    return rows


_FACTORS = np.random.default_rng(0x70617261).integers(1 << 63, size=CONTEXT, dtype=np.uint64) << 1 | 1


def _hashes(contexts: NDArray[np.int64]) -> dict[int, Hashes]:
    """By order, one hash a row, of contexts of any number of tokens.

    Multilinear (Lemire and Kaser, 2014, Strongly universal string hashing is fast): a sum of the tokens, each times a
    random odd number for its place from the end, so that a longer n-gram goes on from a shorter.
    """
    size = contexts.shape[1]
    sums = np.cumsum(contexts[:, ::-1].view(np.uint64) * _FACTORS[:size], axis=1)
    return {order: sums[:, order - 1] for order in ORDERS if order <= size}
