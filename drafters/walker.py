"""Walker: from earlier occurrences of a text's end to chains of guesses with their survival, and those to a draft."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from drafters.suffix_index import SuffixIndex
from drafters.survival import Source, SurvivalTable, Votes, evidence
from protos.draft import ANCHOR, Draft
from protos.messages import DraftQuery

Run = array  # how a text went on after one earlier occurrence


@dataclass(slots=True, kw_only=True)
class Chain:
    """Guesses in order. `rows[i]` is the evidence of guess i in the survival table.

    The last guess may lie below the threshold: it is not worth proposing, but what the target says there is learned.
    """

    tokens: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    survival: list[float] = field(default_factory=list)

    def judge(self, committed: Sequence[int], table: SurvivalTable) -> int:
        """Tells the table which of the guesses came true, up to the first that did not; how many did."""
        lived = 0
        for row, guess, token in zip(self.rows, self.tokens, committed, strict=False):
            table.observe(row, hit=guess == token)
            if guess != token:
                break
            lived += 1
        return lived


@dataclass(frozen=True, slots=True, kw_only=True)
class Walker:
    """Follows what came after earlier occurrences of one source, until survival falls below `threshold`."""

    source: Source
    table: SurvivalTable
    threshold: float

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

    def rivals(self, runs: Sequence[Run[int]], length: int, chain: Chain) -> list[Chain]:
        """Chains that begin with another token than `chain`; they share, with what nobody guessed, what it leaves."""
        others: dict[int, list[Run[int]]] = {}
        for run in runs:
            if run[0] != chain.tokens[0]:
                others.setdefault(run[0], []).append(run)
        given = (1 - chain.survival[0]) / (1 + len(others))
        return [self.walk(rival, length, given=given) for rival in others.values()]


def runs_after(index: SuffixIndex, starts: Sequence[int], limit: int, *, loops: bool) -> list[Run[int]]:
    """At most `limit` tokens from each start. loops: a run that reaches the end goes on into itself, as guesses in a
    request's own text are that run again: a short loop is guessed to any length."""
    runs = [index.tokens(start, start + limit) for start in starts]
    if loops:
        runs = [run if len(run) == limit else (run * (limit // len(run) + 1))[:limit] for run in runs]
    return runs


def joined(query: DraftQuery, chains: Sequence[Chain], *, threshold: float, source: str) -> Draft:
    """One tree of all chains, the best chain first; what survival does not pay for is left out."""
    children: dict[tuple[int, int], int] = {}
    tokens: list[int] = []
    parents: list[int] = []
    survival: list[float] = []
    for chain in chains:
        node, bound = ANCHOR, 1.0
        for token, estimate in zip(chain.tokens, chain.survival, strict=True):
            if estimate < threshold:
                break
            child = children.get((node, token))
            if child is None:
                child = children[node, token] = len(tokens)
                tokens.append(token)
                parents.append(node)
                survival.append(min(estimate, bound))
            node, bound = child, survival[child]
    return Draft(
        request_id=query.request_id,
        base_len=query.base_len,
        tokens=tuple(tokens),
        parents=tuple(parents),
        survival=tuple(survival),
        sources=(source,) * len(tokens),
    )


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
