"""NGrams: stored prefixes by their last tokens, which discards at once what cannot be alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cache_service.hash_index import Hashes, HashIndex, Rows
from protos.draft_files import CONTEXT
from protos.messages import Tokens

ORDERS = (32, 16, 8, 4)  # tokens of an n-gram, the longest first
ABSENT = -1  # fills a context's places before the first token

Contexts = NDArray[np.int32]  # [n, CONTEXT], right-aligned


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """rows: that end with the same n-gram, longest n-gram first, then the newest first. match_lengths: its orders.

    crowded: the order whose rows were cut at the limit, None where all of them are here.
    """

    rows: Rows
    match_lengths: NDArray[np.int64]
    crowded: int | None = None


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
        for order, index, hashes in zip(ORDERS, self._indexes, _hashes(contexts), strict=True):
            long_enough = contexts[:, -order] != ABSENT
            index.add(hashes[long_enough], rows[long_enough])

    def forget_dead(self) -> None:
        """Gives back the memory of rows that live no more."""
        for index in self._indexes:
            index.keep(self._lives)

    def candidates(self, tokens: Tokens, limit: int) -> Candidates:
        """Up to `limit` living rows that share the longest n-grams with the end of `tokens`."""
        rows: list[int] = []
        lengths: list[int] = []
        known: set[int] = set()
        crowded = None
        for order, index, hash_ in self._grams(tokens):
            # Rows that share a longer n-gram share this one too, so they are found again.
            living = self._living(index, hash_, limit + 1)
            fresh = [row for row in living if row not in known]
            room = limit - len(rows)
            rows += fresh[:room]
            lengths += [order] * min(room, len(fresh))
            if len(fresh) > room:
                crowded = order
                break
            known.update(fresh)
        return Candidates(rows=np.array(rows, np.int64), match_lengths=np.array(lengths, np.int64), crowded=crowded)

    def sharing(self, tokens: Tokens, order: int, limit: int) -> Rows:
        """Up to `limit` living rows that share the last `order` tokens, the newest first."""
        for found, index, hash_ in self._grams(tokens):
            if found == order:
                return np.array(self._living(index, hash_, limit), np.int64)
        return np.empty(0, np.int64)

    def _grams(self, tokens: Tokens) -> list[tuple[int, HashIndex, int]]:
        hashes = _hashes(padded([tokens]))
        return [
            (order, index, int(of_order[0]))
            for order, index, of_order in zip(ORDERS, self._indexes, hashes, strict=True)
            if order <= len(tokens)
        ]

    def _living(self, index: HashIndex, hash_: int, limit: int) -> list[int]:
        """The dead among the newest make it look at as many again, twice as many, and so on."""
        wanted = limit
        while True:
            found = index.find(hash_, wanted)
            living: list[int] = found[self._lives(found)].tolist() if len(found) else []
            if len(living) >= limit or len(found) < wanted:
                return living[:limit]
            wanted *= 2


def padded(contexts: list[Tokens]) -> Contexts:
    """Last tokens as an array: right-aligned, ABSENT before the first."""
    rows = np.full((len(contexts), CONTEXT), ABSENT, np.int32)
    for row, tokens in zip(rows, contexts, strict=True):
        if tokens:
            row[-len(tokens[-CONTEXT:]) :] = tokens[-CONTEXT:]
    return rows


_SALTS = np.random.default_rng(0x70617261).integers(1 << 63, size=CONTEXT, dtype=np.uint64)  # by the place from the end


def _hashes(contexts: Contexts) -> list[Hashes]:
    """For each order, one hash a row. The last tokens' mixes are summed, so a longer n-gram goes on from a shorter."""
    mixes = contexts[:, ::-1].astype(np.uint64) ^ _SALTS
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finalizer of SplitMix64
        mixes ^= mixes >> np.uint64(shift)
        mixes *= np.uint64(factor)
    mixes ^= mixes >> np.uint64(31)
    sums = np.cumsum(mixes, axis=1)
    return [sums[:, order - 1] for order in ORDERS]
