"""Mixed: several drafters for every request; each step the draft is taken that is expected to be accepted furthest.

The rule is that of hybrid suffix decoding (arXiv 2411.04975, section 4): what costs nothing guesses first, and a model
is only run where it usually gets further. Expectations are corrected by what became of every draft, see TrackRecord.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drafters.chains import no_draft, waves
from drafters.guarded import forget, guarded
from drafters.live_requests import LiveRequests
from drafters.mixed_round import Request, Round, Source, Standing
from drafters.track_record import TrackRecord
from protos.messages import DraftChunk, DraftQuery, Tokens


class Mixed:
    """A Drafter over others. A query's `method` selects one of them; else they compete.

    The model-free ones draft at every query. A model drafts only where the best draft so far is worth less than what
    it usually reaches; else it only reads, so that its state stays in step. Each is called once for all queries.
    A source that lost its state asks for the text from there, while the others answer; each gets the part of the text
    that it lacks. One that fails at a request is left alone for the rest of it. State is bounded: `max_requests`
    requests, of which the least recently asked goes first.
    """

    def __init__(self, sources: Sequence[Source], *, max_requests: int) -> None:
        self._sources = sorted(sources, key=lambda source: source.runs_model)
        self._names = [source.name for source in sources]
        self._requests: LiveRequests[Request] = LiveRequests(most=max_requests)

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        for wave in waves(queries):
            rounds: dict[str, Round] = {}
            for query in wave:
                met = self._synchronised(query)
                if isinstance(met, DraftChunk):
                    yield met
                else:
                    rounds[query.request_id] = Round(query=query, request=met)
            for source in self._sources:
                _ask(source, rounds)
            for each in rounds.values():
                yield from each.chunks()

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        request = self._requests.pop(request_id)
        for source in self._sources:
            start, lacking = (0, ()) if request is None else request.ending(source, tail_start, tail)
            forget(source.drafter, request_id, tail_start=start, tail=lacking)

    def _synchronised(self, query: DraftQuery) -> Request | DraftChunk:
        """The request with the query's text; the answer where the tail builds on more than is held, or on nothing."""
        if query.method is not None and query.method not in self._names:
            known = ", ".join(self._names)
            return no_draft(query, error=f"method {query.method!r} is none of this drafter's; known: {known}")
        request = self._requests.meet(query, self._new_state, self.close)
        if request is None:
            return no_draft(query, need_from=self._requests.held(query))
        request.synchronise(query)
        return request

    def _new_state(self, query: DraftQuery) -> Request:
        standings = {source.name: Standing(record=TrackRecord(source.record)) for source in self._sources}
        return Request(tenant=query.tenant, standings=standings)


def _ask(source: Source, rounds: dict[str, Round]) -> None:
    """One call of a source for all rounds that need it."""
    asked = [question for each in rounds.values() if (question := each.question(source)) is not None]
    if not asked:
        return
    for chunk in guarded(source.drafter, asked):
        rounds[chunk.request_id].receive(source, chunk)
    for question in asked:
        rounds[question.request_id].weigh(source)
