"""NGrams: stored prefixes by their last tokens, which discards at once what cannot be alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cache_service.hash_index import Hashes, HashIndex, Rows
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

    crowded: the n-gram whose rows were cut at the limit, None where all of them are here.
    """

    match_lengths: dict[int, int]
    crowded: Gram | None


class NGrams:
    """One thread writes at a time; readers need no lock."""

    def __init__(self, lives: Callable[[Rows], NDArray[np.bool_]]) -> None:
        self._lives = lives
        self._indexes = tuple(HashIndex() for _ in ORDERS)

    @property
    def num_bytes(self) -> int:
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
        """Up to `limit` living rows that share the longest n-grams with the end of `tokens`."""
        grams: list[tuple[Gram, Rows]] = []
        for gram in self._grams(tokens):
            # Rows that share a longer n-gram share this one too, so they are found again.
            found = gram.index.find(gram.hash_, limit + 1)
            if not len(found):
                break
            grams.insert(0, (gram, found))
        if not grams:
            return Candidates(match_lengths={}, crowded=None)
        lives = self._lives(np.concatenate([found for _, found in grams]))
        if not lives.all():
            grams = [(gram, self.sharing(gram, limit + 1)) for gram, _ in grams]
        return _merged(grams, limit)

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


def _merged(grams: list[tuple[Gram, Rows]], limit: int) -> Candidates:
    rows: dict[int, int] = {}
    for gram, found in grams:
        for row in found.tolist():
            if len(rows) == limit and row not in rows:
                return Candidates(match_lengths=rows, crowded=gram)
            rows.setdefault(row, gram.order)
    return Candidates(match_lengths=rows, crowded=None)


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
