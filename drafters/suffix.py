"""SuffixDrafter: guesses that a text goes on as it did before, in itself or in past answers. No model.

After SuffixDecoding (arXiv 2411.04975): longest suffix match first, drafts that grow with the match, cut where survival
falls. Here survival comes from a table by kind of evidence that each request corrects with what the target accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from drafters.chains import no_draft, whole
from drafters.context import DrafterContext
from drafters.live_requests import LiveRequests
from drafters.past_answers import PastAnswers
from drafters.suffix_config import SuffixConfig
from drafters.suffix_index import SuffixIndex
from drafters.survival import Source, SurvivalTable
from drafters.walker import Chain, Walker, joined, runs_after
from protos.messages import DraftChunk, DraftQuery, Tokens

PROMPT_CONTEXT = 32


@dataclass(slots=True, kw_only=True)
class _State:
    """One request: its text, what acceptance it has shown, and the guesses that await the target's word."""

    tenant: str
    prompt_len: int
    text: SuffixIndex = field(default_factory=SuffixIndex)
    table: SurvivalTable = field(default_factory=SurvivalTable)
    guessed_at: int = 0
    guesses: Chain = field(default_factory=Chain)


class SuffixDrafter:
    """A Drafter of bounded state: `max_requests` live requests (the least recently asked goes first) and a store."""

    source = "suffix"

    def __init__(self, config: SuffixConfig, *, max_requests: int) -> None:
        self._config = config
        self._requests: LiveRequests[_State] = LiveRequests(most=max_requests)
        self.past = PastAnswers(config.suffix_cache_bytes)

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        for query in queries:
            state = self._synchronised(query)
            if state is None:
                yield no_draft(query, need_from=self._requests.held(query))
            else:
                yield self._answer(query, state)

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        state = self._requests.pop(request_id)
        if state is None:
            return
        if tail and len(state.text) >= tail_start:
            state.text.truncate(tail_start)
            state.text.extend(tail)
        start = max(state.prompt_len - PROMPT_CONTEXT, 0)
        self.past.add(state.tenant, state.text.tokens(start, len(state.text)))

    def _synchronised(self, query: DraftQuery) -> _State | None:
        """The request's state with the tail ingested; None where the drafter holds less than the tail builds on."""
        state = self._requests.meet(query, _new_state, self.close)
        if state is None:
            return None
        state.text.truncate(query.tail_start)
        state.text.extend(query.tail)
        if query.base_len > state.guessed_at:  # a repeated query finds nothing new to learn
            state.guesses.judge(state.text.tokens(state.guessed_at, query.base_len), state.table)
            state.guesses = Chain()
        return state

    def _answer(self, query: DraftQuery, state: _State) -> DraftChunk:
        limit = min(query.budget, self._config.num_speculative_tokens)
        chains = self._chains(state, limit) if limit > 0 else []
        state.guessed_at, state.guesses = query.base_len, chains[0] if chains else Chain()
        threshold = self._config.suffix_decoding_min_token_prob
        draft = joined(query, chains, threshold=threshold, source=self.source).best_prefix(limit)
        return whole(draft, source=self.source)

    def _chains(self, state: _State, limit: int) -> list[Chain]:
        """Chains by expected accepted length, best first; rivals of their first tokens follow where branches are on."""
        end = state.text.last(self._config.suffix_decoding_max_tree_depth)
        chains: list[Chain] = []
        rivals: list[Chain] = []
        for source, index in ((Source.OWN, state.text), (Source.PAST, self.past.of(state.tenant))):
            found = index.match(end) if index is not None else None
            if index is None or found is None or self._config.reach(found.length) < 1:
                continue
            threshold = self._config.suffix_decoding_min_token_prob
            walker = Walker(source=source, table=state.table, threshold=threshold)
            reach = min(limit, self._config.reach(found.length))
            runs = runs_after(index, found.starts, reach, loops=source is Source.OWN)
            chain = walker.walk(runs, found.length)
            chains.append(chain)
            if self._config.num_branches > 1 and chain.tokens:
                rivals += walker.rivals(runs, found.length, chain)
        chains.sort(key=lambda chain: -sum(chain.survival))
        rivals.sort(key=lambda chain: -sum(chain.survival))
        return (chains + rivals)[: self._config.num_branches]


def _new_state(query: DraftQuery) -> _State:
    return _State(tenant=query.tenant, prompt_len=query.prompt_len)


def build_suffix(config: SuffixConfig, context: DrafterContext) -> SuffixDrafter:
    """A suffix drafter sized for the engine in `context`."""
    return SuffixDrafter(config, max_requests=4 * context.max_num_seqs)
