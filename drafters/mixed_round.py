"""Source, Request and Round: who competes, what each holds of a request, and what they answered to one query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from drafters.agreement import agreeing
from drafters.chains import no_draft, whole
from drafters.track_record import TrackRecord, outcome
from protos.draft import Draft
from protos.interfaces import Drafter
from protos.messages import DraftChunk, DraftQuery, Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One of several drafters. columns: its part of joined features, None where it reads none. record: over all
    requests."""

    name: str
    drafter: Drafter
    runs_model: bool
    longest: int
    columns: slice | None = None
    record: TrackRecord = field(default_factory=TrackRecord)


@dataclass(slots=True, kw_only=True)
class Standing:
    """One source at one request. held: how many tokens it has been told. undecided: its drafts by their base_len.
    failed: it raised or reported an error, and is left alone from then on."""

    record: TrackRecord
    held: int = 0
    undecided: dict[int, Draft] = field(default_factory=dict)
    failed: bool = False


@dataclass(slots=True, kw_only=True)
class Request:
    """The committed text of one request, and where each source stands."""

    tenant: str
    standings: dict[str, Standing]
    text: list[int] = field(default_factory=list)

    def synchronise(self, query: DraftQuery) -> None:
        """Brings the text to the query's, and judges the drafts that it decides."""
        same = agreeing(self.text, query.tail_start, query.tail)
        self.text[query.tail_start :] = query.tail
        for standing in self.standings.values():
            standing.held = min(standing.held, same)
            self._judge(standing, same)

    def ending(self, source: Source, tail_start: int, tail: Tokens) -> tuple[int, Tokens]:
        """The part of the text that the source lacks once it ends with the tail, after its position; nothing where the
        tail builds on more than is held."""
        if not tail or len(self.text) < tail_start:
            return 0, ()
        held = min(self.standings[source.name].held, agreeing(self.text, tail_start, tail))
        return held, (*self.text[held:tail_start], *tail[max(held - tail_start, 0) :])

    def _judge(self, standing: Standing, same: int) -> None:
        """Drafts after a text that was cut below their base are void."""
        for base_len, draft in list(standing.undecided.items()):
            lived = outcome(draft, self.text[base_len:]) if base_len <= same else None
            if lived is not None:
                standing.record.judge(draft, lived)
            if lived is not None or base_len > same:
                del standing.undecided[base_len]


@dataclass(slots=True, kw_only=True)
class Round:
    """One query: what the sources answer to it, and whose draft is the best so far."""

    query: DraftQuery
    request: Request
    best: Draft = field(init=False)
    worth: float = 0.0
    answered: dict[str, Draft] = field(default_factory=dict)
    need_from: int | None = None
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.best = self._nothing()

    def question(self, source: Source) -> DraftQuery | None:
        """What to ask a source: the part of the tail that it has not been told; None: nothing."""
        standing, budget = self.request.standings[source.name], self._budget(source)
        if standing.failed or budget is None:
            return None
        tail_start = self.query.tail_start
        start = standing.held if tail_start <= standing.held < self.query.base_len else tail_start
        features = self.query.features
        if features is not None:
            known = max(start - 1, 0) - max(tail_start - 1, 0)
            features = None if source.columns is None else np.ascontiguousarray(features[known:, source.columns])
        return replace(self.query, tail=self.query.tail[start - tail_start :], budget=budget, features=features)

    def _budget(self, source: Source) -> int | None:
        """0 lets a source read only; None leaves it alone, as one that another is selected before and may cost much."""
        budget = self.query.budget
        if self.query.method is not None:
            if source.name != self.query.method:
                return None if source.runs_model else 0
            return budget
        if source.runs_model:
            usual = self.request.standings[source.name].record.usual(min(budget, source.longest))
            return budget if self.worth < usual else 0
        return budget

    def receive(self, source: Source, chunk: DraftChunk) -> None:
        """Takes a chunk of the source's answer."""
        standing = self.request.standings[source.name]
        if chunk.error:
            self.errors.append(f"{source.name}: {chunk.error}")
            standing.failed = True
        elif chunk.need_from is not None:
            standing.held = chunk.need_from
            self.need_from = chunk.need_from if self.need_from is None else min(self.need_from, chunk.need_from)
        else:
            standing.held = self.query.base_len
            so_far = self.answered.get(source.name) or self._nothing()
            self.answered[source.name] = so_far.extend(chunk).take(self.query.budget)

    def weigh(self, source: Source) -> None:
        """Compares the source's draft with the best so far, and keeps it until the text decides it."""
        draft, standing = self.answered.get(source.name), self.request.standings[source.name]
        if draft is None or not draft.tokens:
            return
        standing.undecided[self.query.base_len] = draft
        worth = standing.record.worth(draft)
        if worth > self.worth:
            self.best, self.worth = draft, worth

    def chunks(self) -> Iterator[DraftChunk]:
        """The best draft between what failed and what is asked for, either of which is rare; the last closes."""
        parts = [replace(no_draft(self.query, error=error), last=False) for error in self.errors]
        if self.best.tokens or self.need_from is None:
            parts.append(whole(self.best, source=self.best.sources[0] if self.best.sources else ""))
        if self.need_from is not None:
            parts.append(no_draft(self.query, need_from=self.need_from))
        yield from (replace(part, last=i == len(parts) - 1) for i, part in enumerate(parts))

    def _nothing(self) -> Draft:
        return Draft(request_id=self.query.request_id, base_len=self.query.base_len)
