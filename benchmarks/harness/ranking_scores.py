"""Scores of a search: of the best candidate of each question, above a threshold, how often it is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from protos.messages import Tokens

RIGHT = 4  # tokens that are accepted of a path
LONGEST_DRAFT = 16
RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A stored prefix. agreed: how many first tokens of its commonest path are the text's. similarity: -1 where it is
    not known."""

    match_length: int
    similarity: float
    agreed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A question. text: the number of the one it is about. kind: of that text. candidates: as the search ranked them.
    possible: any stored prefix is right."""

    text: int
    kind: str
    candidates: tuple[Candidate, ...]
    possible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """precision: of what was found, how much is right. recall: of what could be right, how much is. f1: their harmonic
    mean. accepted: tokens of a draft of LONGEST_DRAFT, for each question."""

    threshold: float
    found: int
    precision: float
    recall: float
    f1: float
    accepted: float


Measure = Callable[[Candidate], float]


def by_match(candidate: Candidate) -> float:
    """Tokens."""
    return candidate.match_length


def by_similarity(candidate: Candidate) -> float:
    """Cosine."""
    return candidate.similarity


def agreeing(path: Tokens, text: Tokens) -> int:
    """First tokens of both that are the same."""
    return next((i for i, (a, b) in enumerate(zip(path, text, strict=False)) if a != b), min(len(path), len(text)))


def most_similar_first(questions: Sequence[Judged]) -> list[Judged]:
    """The same candidates, ranked by cosine alone."""
    return [
        replace(each, candidates=tuple(sorted(each.candidates, key=lambda one: -one.similarity))) for each in questions
    ]


def score(questions: Sequence[Judged], measure: Measure, threshold: float) -> Score:
    """Takes of each question's candidates the first that measures `threshold` or more."""
    tops = _tops(questions, measure, threshold)
    found = [top for top in tops if top is not None]
    right = sum(top.agreed >= RIGHT for top in found)
    possible = sum(each.possible for each in questions)
    return Score(
        threshold=threshold,
        found=len(found),
        precision=right / max(len(found), 1),
        recall=right / max(possible, 1),
        f1=2 * right / max(len(found) + possible, 1),
        accepted=sum(min(top.agreed, LONGEST_DRAFT) for top in found) / max(len(questions), 1),
    )


def best_score(questions: Sequence[Judged], measure: Measure, thresholds: Sequence[float]) -> Score:
    """The highest f1; of equals the lowest threshold."""
    return max((score(questions, measure, each) for each in sorted(thresholds)), key=lambda one: one.f1)


def f1_bounds(questions: Sequence[Judged], measure: Measure, threshold: float) -> list[float]:
    """Between what bounds f1 lies with 95 % certainty: texts, whose questions are alike, are drawn anew."""
    texts = {text: place for place, text in enumerate(dict.fromkeys(each.text for each in questions))}
    counts = np.zeros((len(texts), 2))  # right; found and possible
    for each, top in zip(questions, _tops(questions, measure, threshold), strict=True):
        counts[texts[each.text]] += (top is not None and top.agreed >= RIGHT, (top is not None) + each.possible)
    drawn = np.random.default_rng(0).integers(len(texts), size=(RESAMPLES, len(texts)))
    right, all_of_them = counts[drawn].sum(axis=1).T
    low, high = np.percentile(2 * right / np.maximum(all_of_them, 1), [2.5, 97.5])
    return [float(low), float(high)]


def _tops(questions: Sequence[Judged], measure: Measure, threshold: float) -> list[Candidate | None]:
    return [next((one for one in each.candidates if measure(one) >= threshold), None) for each in questions]
