"""walk: from earlier occurrences of a text's end to a chain of guesses with their survival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from drafters.suffix_index import SuffixIndex
from drafters.survival import Source, SurvivalTable, Votes, evidence

NO_TOKEN = -1


@dataclass(slots=True, kw_only=True)
class Chain:
    """Guesses in order. `rows[i]` is the evidence of guess i in the survival table.

    The last guess may lie below the threshold: it is not worth proposing, but what the target says there is learned.
    `rivals`: other first tokens, with the occurrences that go on with them.
    """

    tokens: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    survival: list[float] = field(default_factory=list)
    rivals: list[tuple[int, list[int]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walker:
    """Reads on from occurrences in one index, until survival falls below `threshold`.

    In the request's own text (`Source.OWN`) an occurrence that reaches the text's end goes on into the guesses
    themselves, so that a short loop is guessed to any length.
    """

    index: SuffixIndex
    source: Source
    table: SurvivalTable
    threshold: float

    def walk(self, starts: Sequence[int], length: int, limit: int, *, given: float = 1.0) -> Chain:
        """At most `limit` guesses after a match of `length` tokens whose occurrences go on at `starts`.

        `given` is the survival that the chain starts from.
        """
        chain = Chain()
        alive, survival = list(starts), given
        for step in range(limit):
            token, votes, alive, rivals = self._vote(alive, step, chain.tokens)
            if token == NO_TOKEN:
                break
            if step == 0:
                chain.rivals = rivals
            row = evidence(self.source, votes, length + step)
            survival *= self.table[row]
            chain.tokens.append(token)
            chain.rows.append(row)
            chain.survival.append(survival)
            if survival < self.threshold:
                break
        return chain

    def _vote(
        self, alive: list[int], step: int, guessed: list[int]
    ) -> tuple[int, Votes, list[int], list[tuple[int, list[int]]]]:
        """The next token, how sure the occurrences are, those that agree with it, and the others by token."""
        if len(alive) == 1:
            return self._read(alive[0] + step, guessed), Votes.ONE, alive, []
        by_token: dict[int, list[int]] = {}
        for start in alive:
            token = self._read(start + step, guessed)
            if token != NO_TOKEN:
                by_token.setdefault(token, []).append(start)
        if not by_token:
            return NO_TOKEN, Votes.SPLIT, [], []
        total = sum(map(len, by_token.values()))
        best = max(by_token, key=lambda token: len(by_token[token]))
        agreeing = by_token[best]
        if len(agreeing) * 2 <= total and total > 1:
            best, agreeing = next(iter(by_token.items()))
            votes = Votes.SPLIT
        elif len(agreeing) < total:
            votes = Votes.MOST
        else:
            votes = Votes.ALL if total > 1 else Votes.ONE
        return best, votes, agreeing, [(token, starts) for token, starts in by_token.items() if token != best]

    def _read(self, position: int, guessed: list[int]) -> int:
        beyond = position - len(self.index)
        if beyond < 0:
            return self.index[position]
        return guessed[beyond] if self.source is Source.OWN else NO_TOKEN
