"""Landmarks: the places of a text where draft files are asked and written. Its words alone decide where they are.

Content-defined chunking, as deduplicating stores cut files (LBFS, SOSP 2001): a place is a landmark where a hash of the
tokens before it says so. Two texts that share a passage have landmarks at the same places of it, wherever it stands in
either, so what was stored at one is found at the other with one look-up for SPACING tokens.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from protos.draft_files import CONTEXT, DIGEST_BYTES, Prefix

SPACING = 16
ORDER = 4
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
_WORD = 2**64 - 1


def is_landmark(text: Sequence[int], place: int) -> bool:
    """Whether the ORDER tokens before `place` make it one; one in SPACING does."""
    if place < ORDER:
        return False
    mixed = sum(factor * (text[place - ORDER + i] + 1) for i, factor in enumerate(_FACTORS)) & _WORD
    return (mixed >> 40) % SPACING == 0


class Landmarks:
    """Those of one growing text behind its prompt, with the digest of all that stands before each.

    The prompt's end is one in any case. In a loop every place might be one: they keep ORDER tokens apart.
    """

    def __init__(self, prompt_len: int) -> None:
        self._prompt_len = prompt_len
        self._restart()

    def _restart(self) -> None:
        self._digests: dict[int, bytes] = {}
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._hashed = 0
        self._seen = self._prompt_len - 1

    @property
    def places(self) -> list[int]:
        """In order, the prompt's end first."""
        return list(self._digests)

    def digest(self, place: int) -> bytes:
        """Names all of the text before a landmark."""
        return self._digests[place]

    def prefix(self, place: int, text: Sequence[int], feature: NDArray[np.float32] | None) -> Prefix:
        """The text before a landmark, as draft files are asked and told of it."""
        tokens = tuple(text[max(place - CONTEXT, 0) : place])
        return Prefix(tokens=tokens, length=place, digest=self._digests[place], feature=feature)

    def extend(self, text: array[int]) -> None:
        """Reads on to the end of the text."""
        for place in range(self._seen + 1, len(text) + 1):
            ends_prompt = place == self._prompt_len and place > 0
            if ends_prompt or (place - self._hashed >= ORDER and is_landmark(text, place)):
                self._hash.update(text[self._hashed : place].tobytes())
                self._hashed = place
                self._digests[place] = self._hash.copy().digest()
        self._seen = max(self._seen, len(text))

    def truncate(self, text: array[int], length: int) -> None:
        """The text ends at `length`. It is read anew, which is rare: only committed tokens are read."""
        if length < self._seen:
            self._restart()
            self.extend(text[:length])
