"""SuffixIndex: a text that knows where its last tokens occurred before, by hash chains over n-grams of a few lengths.

As in LZ77 compressors, `head` maps an n-gram to the position after its latest occurrence and `previous` links each
position to the one before with the same n-gram. Append, truncate and forgetting from the front cost O(1) a token.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ORDERS = (8, 4, 2, 1)
RUNGS = (64, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
MAX_CANDIDATES = 4
NOWHERE = -1

# What CPython holds, at most, in bytes.
ROW_BYTES = 39  # a token and its links, with the spare room of a growing array
EMPTY_BYTES = 4096  # the objects of an index without tokens
TABLE_BYTES = 120  # of a dict, for each of its entries: after growing it has fewer than 6 slots an entry, of 20 bytes
GRAM_BYTES = tuple(48 + 32 + 4 * order for order in ORDERS)  # an n-gram as bytes, and its position
MOST_BYTES_PER_TOKEN = ROW_BYTES + sum(GRAM_BYTES) + len(ORDERS) * TABLE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Where the longest match of a text's end goes on: `starts` are positions in the index, the latest first.

    `length` is rounded down to one of `RUNGS`.
    """

    length: int
    starts: Sequence[int]


class SuffixIndex:
    """Positions count from the first token ever appended; those below `start` have been forgotten.

    The rows in memory begin at `_origin`: forgotten ones are kept until they are half of all.
    """

    def __init__(self) -> None:
        self.start = 0
        self._origin = 0
        self._tokens = array("i")
        self._heads: tuple[dict[bytes, int], ...] = tuple({} for _ in ORDERS)
        self._previous: tuple[array[int], ...] = tuple(array("q") for _ in ORDERS)

    def __len__(self) -> int:
        """Position after the last token."""
        return self._origin + len(self._tokens)

    def __getitem__(self, position: int) -> int:
        return self._tokens[position - self._origin]

    @property
    def num_bytes(self) -> int:
        """Memory held, from above. It grows by at most MOST_BYTES_PER_TOKEN a token, from EMPTY_BYTES."""
        grams = sum(len(head) * size for head, size in zip(self._heads, GRAM_BYTES, strict=True))
        # A dict that has lost entries keeps its table.
        tables = sum(max(sys.getsizeof(head) - EMPTY_BYTES // 8, TABLE_BYTES * len(head)) for head in self._heads)
        return EMPTY_BYTES + ROW_BYTES * len(self._tokens) + grams + tables

    def tokens(self, start: int, stop: int) -> array[int]:
        """The tokens at positions `start` to `stop`, without the last."""
        return self._tokens[max(start, self.start) - self._origin : max(stop - self._origin, 0)]

    def last(self, count: int) -> array[int]:
        """The last `count` tokens, fewer where the text is shorter."""
        return self.tokens(len(self) - count, len(self))

    def extend(self, tokens: Iterable[int]) -> None:
        """Appends tokens."""
        text, dead, position = self._tokens, self.start - self._origin, len(self)
        for token in tokens:
            text.append(token)
            position += 1
            size = len(text)
            for order, head, previous in zip(ORDERS, self._heads, self._previous, strict=True):
                gram = text[max(size - order, dead) :].tobytes()
                previous.append(head.get(gram, NOWHERE))
                head[gram] = position

    def truncate(self, length: int) -> None:
        """Drops the tokens at and after position `length`; not after `forget`, which loses what it would need."""
        assert self.start == 0, self.start
        for _ in range(len(self), max(length, 0), -1):
            for order, head, previous in zip(ORDERS, self._heads, self._previous, strict=True):
                gram = self._tokens[-order:].tobytes()
                before = previous.pop()
                if before == NOWHERE:
                    del head[gram]
                else:
                    head[gram] = before
            self._tokens.pop()

    def forget(self, count: int) -> None:
        """Drops the first `count` tokens."""
        dead = self.start - self._origin
        for order, head in zip(ORDERS, self._heads, strict=True):
            # The n-grams of the next order - 1 positions reach back into what is forgotten, so they go too.
            for row in range(dead + 1, min(dead + count + order, len(self._tokens) + 1)):
                gram = self._tokens[max(row - order, dead) : row].tobytes()
                if head.get(gram) == self._origin + row:
                    del head[gram]
        self.start += count
        if 2 * (dead + count) >= len(self._tokens):
            self._compact()

    def match(self, end: array[int]) -> Match | None:
        """The longest match of a text that ends with `end`; the index's own end never matches itself."""
        for order, head, previous in zip(ORDERS, self._heads, self._previous, strict=True):
            if len(end) < order:
                continue
            found = self._chain(head.get(end[-order:].tobytes(), NOWHERE), previous, order)
            if found:
                return self._longest(found, end, order)
        return None

    def _compact(self) -> None:
        """Lets go of the forgotten rows and of the tables' spare room."""
        dead = self.start - self._origin
        self._tokens = self._tokens[dead:]
        self._previous = tuple(previous[dead:] for previous in self._previous)
        self._heads = tuple(dict(head) for head in self._heads)
        self._origin = self.start

    def _chain(self, position: int, previous: array[int], order: int) -> list[int]:
        """Up to MAX_CANDIDATES positions of a chain, without the index's own end."""
        found: list[int] = []
        while position - order >= self.start and len(found) < MAX_CANDIDATES:
            if position < len(self):
                found.append(position)
            position = previous[position - self._origin - 1]
        return found

    def _longest(self, found: Sequence[int], end: array[int], order: int) -> Match:
        for rung in RUNGS:
            if rung <= order:
                break
            if rung > len(end):
                continue
            suffix = end[-rung:]
            longest = [p for p in found if self.tokens(p - rung, p) == suffix]
            if longest:
                return Match(length=rung, starts=longest)
        return Match(length=order, starts=found)
