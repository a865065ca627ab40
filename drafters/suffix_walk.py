"""Walker: from earlier occurrences of a text's end to a chain of guesses with their survival."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from drafters.suffix_index import SuffixIndex
from drafters.survival import Source, SurvivalTable, Votes, evidence

Run = array  # how the text went on after one earlier occurrence


@dataclass(slots=True, kw_only=True)
class Chain:
    """Guesses in order. `rows[i]` is the evidence of guess i in the survival table.

    The last guess may lie below the threshold: it is not worth proposing, but what the target says there is learned.
    """

    tokens: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    survival: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walker:
    """Follows what came after earlier occurrences in one index, until survival falls below `threshold`."""

    index: SuffixIndex
    source: Source
    table: SurvivalTable
    threshold: float

    def runs(self, starts: Sequence[int], limit: int) -> list[Run[int]]:
        """At most `limit` tokens from each start.

        In the request's own text a run that reaches the end goes on into the guesses, which are the run itself again:
        a short loop is guessed to any length.
        """
        runs = [self.index.tokens(start, start + limit) for start in starts]
        if self.source is Source.OWN:
            runs = [run if len(run) == limit else (run * (limit // len(run) + 1))[:limit] for run in runs]
        return runs

    def walk(self, runs: list[Run[int]], length: int, *, given: float = 1.0) -> Chain:
        """Guesses after a match of `length` tokens that goes on in `runs`. `given`: the survival it starts from."""
        chain = Chain()
        survival = given
        for step in range(max(map(len, runs))):
            token, votes, runs = _vote(runs, step)
            if token < 0:
                break
            row = evidence(self.source, votes, length + step)
            survival *= self.table[row]
            chain.tokens.append(token)
            chain.rows.append(row)
            chain.survival.append(survival)
            if survival < self.threshold:
                break
        return chain


def _vote(runs: list[Run[int]], step: int) -> tuple[int, Votes, list[Run[int]]]:
    """The next token (negative: the text ends), how sure the runs are of it, and those that go on with it.

    A run is as long as the others, or else its last token is negative and it is left behind there.
    """
    if len(runs) == 1:
        return runs[0][step], Votes.ONE, runs
    by_token: dict[int, list[Run[int]]] = {}
    for run in runs:
        by_token.setdefault(run[step], []).append(run)
    token, agreeing = max(by_token.items(), key=lambda entry: len(entry[1]))
    if len(agreeing) == len(runs):
        return token, Votes.ALL, agreeing
    if len(agreeing) * 2 > len(runs):
        return token, Votes.MOST, agreeing
    token, agreeing = next(iter(by_token.items()))
    return token, Votes.SPLIT, agreeing
