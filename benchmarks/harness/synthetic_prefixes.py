"""Synthetic prefixes that are spread as those of text are: phrases come back, few of them often and most seldom."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from protos.draft_files import CONTEXT, MAX_PATH, Continuation, Namespace, Prefix
from protos.messages import Tokens

VOCABULARY = 49_152
WIDTH = 128
SPACING = 16  # tokens between places, on average; see drafters.landmarks
GRAM = 4
PHRASES = 200_000
PHRASE_TOKENS = 12
DOCUMENT_PHRASES = 20
TOPICS = 1000
NOISES = 65_536
ONCE = 1 / 7
SHARED = 16  # last tokens of what is alike
ZIPF = 1.1
NAMESPACE = Namespace(
    tenant="benchmark", fingerprint="synthetic", tokenizer="synthetic", feature="synthetic", width=WIDTH
)


class Stream:
    """Documents of phrases, which are drawn by Zipf's law; every seventh is said once only.

    It has `count` places: where a hash of the last GRAM tokens says so, so at the same ones of a phrase wherever it
    comes.
    """

    def __init__(self, count: int) -> None:
        self._random = np.random.default_rng(0)
        self._tokens, self._places = self._write(count)
        documents = len(self._tokens) // (DOCUMENT_PHRASES * PHRASE_TOKENS) + 1
        self._topics = self._random.integers(TOPICS, size=documents)
        self._directions = self._random.standard_normal((TOPICS, WIDTH), dtype=np.float32)
        self._noises = self._random.standard_normal((NOISES, WIDTH), dtype=np.float32)

    def __len__(self) -> int:
        """Places."""
        return len(self._places)

    def prefix(self, number: int) -> Prefix:
        """The text up to a place. Its feature is the direction of the document's topic, and as much noise again."""
        place = int(self._places[number])
        topic = self._topics[place // (DOCUMENT_PHRASES * PHRASE_TOKENS)]
        return Prefix(
            tokens=tuple(self._tokens[place - CONTEXT : place].tolist()),
            length=place,
            digest=hashlib.blake2b(number.to_bytes(8), digest_size=16).digest(),
            feature=self._directions[topic] + self._noises[number % NOISES],
        )

    def continuations(self, start: int, stop: int, *, together: int) -> Iterator[list[Continuation]]:
        """How it goes on at places start..stop-1, at most `together` at a time."""
        for first in range(start, stop, together):
            yield [self._continuation(number) for number in range(first, min(first + together, stop))]

    def commonest_end(self, count: int) -> Tokens:
        """The GRAM tokens that most of the first `count` places come after."""
        ends = np.stack([self._tokens[self._places[:count] - GRAM + i] for i in range(GRAM)], axis=1)
        grams, counts = np.unique(ends, axis=0, return_counts=True)
        return tuple(grams[counts.argmax()].tolist())

    def _continuation(self, number: int) -> Continuation:
        place = int(self._places[number])
        tokens = tuple(self._tokens[place : place + MAX_PATH].tolist())
        return Continuation(namespace=NAMESPACE, prefix=self.prefix(number), tokens=tokens)

    def _write(self, count: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        size = (PHRASES, PHRASE_TOKENS)
        bank = self._random.integers(VOCABULARY, size=size, dtype=np.int32)
        factors = self._random.integers(1 << 62, size=GRAM, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        tokens, places = np.zeros(0, np.int32), np.zeros(0, np.int64)
        while len(places) < count:
            phrases = bank[self._random.zipf(ZIPF, size=max(2 * (count - len(places)), 1000)) % PHRASES]
            once = self._random.random(len(phrases)) < ONCE
            phrases[once] = self._random.integers(VOCABULARY, size=(int(once.sum()), PHRASE_TOKENS), dtype=np.int32)
            tokens = np.concatenate([tokens, phrases.reshape(-1)])
            places = _places(tokens, factors)
        return tokens, places[:count]


def _places(tokens: NDArray[np.int32], factors: NDArray[np.uint64]) -> NDArray[np.int64]:
    windows = np.lib.stride_tricks.sliding_window_view(tokens, GRAM)
    mixed = np.zeros(len(windows), np.uint64)
    for column, factor in enumerate(factors):
        mixed += (windows[:, column].astype(np.uint64) + np.uint64(1)) * factor
    places = np.flatnonzero((mixed >> np.uint64(40)) % np.uint64(SPACING) == 0) + GRAM
    return places[(places >= CONTEXT) & (places <= len(tokens) - MAX_PATH)]


class Asked(StrEnum):
    """A stored prefix itself; one that ends with the same SHARED tokens as a stored one, with or without a feature; one
    that ends as most stored ones do; one that is like none."""

    STORED = "stored itself"
    ALIKE = "alike"
    ALIKE_BARE = "alike, no feature"
    CROWDED = "crowded"
    CROWDED_BARE = "crowded, no feature"
    NOTHING = "nothing alike"


def asked_prefixes(stream: Stream, stored: int, kind: Asked, count: int) -> list[Prefix]:
    """`count` prefixes of a kind, where the first `stored` places of a stream were stored; the same for the same."""
    random = np.random.default_rng(stored)
    common = stream.commonest_end(stored)
    prefixes = []
    for number in random.choice(stored, size=count).tolist():
        like = stream.prefix(number)
        end = {Asked.NOTHING: (), Asked.CROWDED: common, Asked.CROWDED_BARE: common}.get(kind, like.tokens[-SHARED:])
        assert like.feature is not None
        other = replace(
            like,
            tokens=(*random.integers(VOCABULARY, size=CONTEXT - len(end)).tolist(), *end),
            digest=random.bytes(16),
            feature=None if "no feature" in kind else like.feature + random.standard_normal(WIDTH, dtype=np.float32),
        )
        prefixes.append(like if kind is Asked.STORED else other)
    return prefixes
