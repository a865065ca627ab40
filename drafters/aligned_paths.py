"""AlignedPaths: the paths that were found for one text, and where the text stands in each of them.

A path helps for as long as the text follows it. Where the text leaves it, the text's last tokens are sought in all the
paths again, so that one word that differs does not end the help (arXiv 2411.04975 aligns in the same way).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from drafters.walker import Run
from protos.draft_files import Hit

END = -1  # after each path: no token, so that nothing matches or reads across
SOUGHT = (16, 8, 4)  # last tokens of the text, the longest first
LONGEST_MATCH = 64
MOST_PATHS = 16
MOST_COPIES = 4
_BYTES = array("i").itemsize


@dataclass(slots=True)
class _Aligned:
    """A prefix's last tokens and one of its paths. place: what the text is at, None where it has left the path.
    matched: how many tokens before the place are the text's last ones."""

    digest: bytes
    tokens: array[int]
    count: int
    place: int | None = None
    matched: int = 0

    @property
    def ahead(self) -> int:
        """Tokens of the path that the text has yet to reach."""
        return 0 if self.place is None else len(self.tokens) - self.place - 1

    def upcoming(self, limit: int) -> Run[int]:
        """How the path goes on, at most `limit` tokens and its END."""
        return array("i") if self.place is None else self.tokens[self.place : self.place + limit]

    def follow(self, token: int) -> None:
        """The text went on with a token."""
        if self.place is None:
            return
        if self.tokens[self.place] == token:
            self.place, self.matched = self.place + 1, min(self.matched + 1, LONGEST_MATCH)
        else:
            self.place, self.matched = None, 0

    def seek(self, text: array[int]) -> None:
        """Aligns the path with the longest end of the text that stands in it, if one does."""
        data = self.tokens.tobytes()
        for length in SOUGHT:
            start = _find(data, text[-length:].tobytes()) if len(text) >= length else -1
            if start >= 0 and start + length < len(self.tokens) - 1:
                self.place, self.matched = start + length, length
                return


class AlignedPaths:
    """Those of the latest hits, at most MOST_PATHS."""

    def __init__(self) -> None:
        self._paths: list[_Aligned] = []
        self._read = 0

    def add(self, hits: Sequence[Hit], at: int, digest: bytes, text: array[int]) -> None:
        """Takes the paths of hits for the prefix of `at` tokens, which `digest` names; the text may have gone on since.

        A hit of the same digest had the same text from its first token on, which is the longest match there is.
        """
        fresh: list[_Aligned] = []
        for hit in hits:
            known = len(hit.context)
            same = hit.digest == digest
            matched = LONGEST_MATCH if same else _agreeing_end(hit.context, text[max(at - known, 0) : at])
            for path in hit.paths:
                tokens = array("i", (*hit.context, *path.tokens, END))
                aligned = _Aligned(hit.digest, tokens, path.count, known, matched)
                for token in text[at : self._read]:
                    aligned.follow(token)
                fresh.append(aligned)
        replaced = {(path.digest, path.tokens.tobytes()) for path in fresh}
        kept = [path for path in self._paths if (path.digest, path.tokens.tobytes()) not in replaced]
        self._paths = (fresh + kept)[:MOST_PATHS]

    def follow(self, text: array[int]) -> None:
        """Reads on to the end of the text; what has lost it seeks it again."""
        for path in self._paths:
            for token in text[self._read :]:
                path.follow(token)
            if path.place is None or path.ahead == 0:
                path.seek(text)
        self._read = len(text)

    def restart(self, length: int) -> None:
        """The text was cut to a length: what was aligned with the rest must seek it again."""
        self._read = min(self._read, length)
        for path in self._paths:
            path.place, path.matched = None, 0

    @property
    def ahead(self) -> int:
        """Tokens that the path which reaches furthest has yet to give."""
        return max((path.ahead for path in self._paths), default=0)

    def runs(self, limit: int) -> tuple[int, list[Run[int]]]:
        """The longest match, and how texts went on after one at least half as long, at most `limit` tokens each: the
        longest match first, then the most frequent, which comes several times. Paths overlap: one run begins with no
        other."""
        aligned = sorted((path for path in self._paths if path.ahead), key=lambda path: (-path.matched, -path.count))
        runs: list[Run[int]] = []
        for path in aligned:
            run = path.upcoming(limit)
            if 2 * path.matched < aligned[0].matched:
                break
            if not any(_begins(run, other) or _begins(other, run) for other in runs):
                runs += [run] * min(path.count, MOST_COPIES)
        return (aligned[0].matched, runs) if aligned else (0, runs)

    def digests(self) -> set[bytes]:
        """Names of the prefixes whose paths the text is at."""
        return {path.digest for path in self._paths if path.ahead}


def _find(data: bytes, wanted: bytes) -> int:
    """The last place, in tokens, where the bytes stand, -1 for none."""
    start = data.rfind(wanted)
    while start >= 0 and start % _BYTES:
        start = data.rfind(wanted, 0, start + len(wanted) - 1)
    return start // _BYTES if start >= 0 else -1


def _agreeing_end(context: Sequence[int], before: Sequence[int]) -> int:
    """How many last tokens of the two are the same."""
    same = 0
    for stored, own in zip(reversed(context), reversed(before), strict=False):
        if stored != own:
            break
        same += 1
    return same


def _begins(run: Run[int], other: Run[int]) -> bool:
    """Whether `other` begins as `run` goes, whose end may be the path's."""
    inner = run[:-1] if run[-1] == END else run
    return other[: len(inner)] == inner
