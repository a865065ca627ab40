"""SurvivalTable: how often a guess of a given kind of evidence is right, from a prior and from what one request showed.

The prior is the hit rate measured on 1,200 answers of a small chat model (docs/LOG.md, "suffix drafter"). It differs
little between chat, code and mathematics; it differs much between kinds of evidence, which is what the table is for.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import IntEnum

BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
PRIOR_WEIGHT = 8.0
MEMORY = 64.0


class Source(IntEnum):
    """Where the earlier occurrence stands: in the text itself, in past answers, in draft files."""

    OWN = 0
    PAST = 1
    FILED = 2


class Votes(IntEnum):
    """How the earlier occurrences go on: there is one, all alike, most alike, or no majority (the latest is taken)."""

    ONE = 0
    ALL = 1
    MOST = 2
    SPLIT = 3


_PRIORS = (
    (0.27, 0.54, 0.62, 0.68, 0.74, 0.81, 0.87, 0.92, 0.95, 0.97, 0.99),  # OWN, ONE, by bucket
    (0.59, 0.78, 0.80, 0.87, 0.92, 0.94, 0.98, 0.98, 0.99, 0.99, 0.99),
    (0.35, 0.45, 0.45, 0.46, 0.46, 0.60, 0.65, 0.65, 0.65, 0.65, 0.65),
    (0.15, 0.23, 0.23, 0.27, 0.31, 0.35, 0.35, 0.35, 0.38, 0.40, 0.40),
    (0.19, 0.25, 0.35, 0.40, 0.48, 0.57, 0.68, 0.72, 0.84, 0.90, 0.98),  # PAST, ONE
    (0.30, 0.52, 0.59, 0.66, 0.74, 0.90, 0.94, 0.94, 0.95, 0.96, 0.98),
    (0.18, 0.29, 0.33, 0.41, 0.44, 0.62, 0.62, 0.62, 0.65, 0.65, 0.65),
    (0.09, 0.12, 0.13, 0.18, 0.20, 0.20, 0.20, 0.20, 0.30, 0.30, 0.30),
    (0.19, 0.25, 0.35, 0.48, 0.55, 0.61, 0.71, 0.76, 0.86, 0.91, 0.96),  # FILED, ONE
    (0.30, 0.52, 0.59, 0.74, 0.76, 0.90, 0.94, 0.97, 0.97, 0.97, 0.97),
    (0.18, 0.29, 0.33, 0.41, 0.50, 0.60, 0.60, 0.60, 0.65, 0.65, 0.65),
    (0.09, 0.12, 0.13, 0.17, 0.21, 0.21, 0.21, 0.35, 0.40, 0.40, 0.40),
)
LONGEST = 1024  # match and draft together
_BUCKET_OF = tuple(bisect_right(BUCKETS, length) - 1 for length in range(LONGEST + 1))
_FIRST_ROW = tuple(tuple((source * len(Votes) + votes) * len(BUCKETS) for votes in Votes) for source in Source)


def evidence(source: Source, votes: Votes, match_length: int) -> int:
    """The row of the table for a guess after a match of 1 to LONGEST tokens."""
    return _FIRST_ROW[source][votes] + _BUCKET_OF[match_length]


class SurvivalTable:
    """P(guess is right) by evidence: the prior counts as PRIOR_WEIGHT observations; beyond MEMORY old ones fade."""

    def __init__(self) -> None:
        prior = [probability for row in _PRIORS for probability in row]
        self._hits = [probability * PRIOR_WEIGHT for probability in prior]
        self._seen = [PRIOR_WEIGHT] * len(prior)

    def __getitem__(self, row: int) -> float:
        return self._hits[row] / self._seen[row]

    def observe(self, row: int, *, hit: bool) -> None:
        """One guess of this evidence was decided by the target."""
        self._hits[row] += hit
        self._seen[row] += 1
        if self._seen[row] > MEMORY:
            self._hits[row] /= 2
            self._seen[row] /= 2
