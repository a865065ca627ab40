"""CachedDrafter: guesses from draft files, what texts like this one went on with before. No model, and no waiting.

Look-ups are sent at landmarks, from the prompt's end on, and their findings are used by whichever query comes after
them. A text's own continuations are added once it has ended, so that nothing is stored that might be taken back.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from drafters.aligned_paths import AlignedPaths
from drafters.cached_config import CachedConfig
from drafters.chains import no_draft, whole
from drafters.context import DrafterContext
from drafters.landmarks import Landmarks
from drafters.live_requests import LiveRequests
from drafters.prefix_features import PrefixFeatures, namespace_of
from drafters.survival import Source, SurvivalTable
from drafters.walker import Chain, Walker, joined
from protos.draft_files import (
    MAX_PATH,
    MIN_PATH,
    Continuation,
    Credit,
    DraftFiles,
    Findings,
    Namespace,
    Prefix,
    Question,
)
from protos.messages import DraftChunk, DraftQuery, Tokens

FEW_AHEAD = 24  # tokens: with more of a path to come, the next landmark need not be looked up


@dataclass(slots=True, kw_only=True)
class _State:
    """One request: its text, what was found for it, and the guesses that await the target's word.

    looked_up: the landmark asked about last, and whether its feature was known.
    """

    namespace: Namespace
    prompt_len: int
    landmarks: Landmarks
    features: PrefixFeatures | None
    text: array[int] = field(default_factory=lambda: array("i"))
    paths: AlignedPaths = field(default_factory=AlignedPaths)
    table: SurvivalTable = field(default_factory=SurvivalTable)
    looked_up: tuple[int, bool] = (-1, False)
    guessed_at: int = 0
    guesses: Chain = field(default_factory=Chain)
    helped_by: set[bytes] = field(default_factory=set)

    @property
    def tenant(self) -> str:
        """Whose request it is."""
        return self.namespace.tenant

    def ingest(self, tail_start: int, tail: Tokens) -> None:
        """Cuts the text to `tail_start`, appends the tail, and judges the guesses that it decides."""
        if tail_start < len(self.text) and self.text[tail_start:] != array("i", tail)[: len(self.text) - tail_start]:
            self.landmarks.truncate(self.text, tail_start)
            self.paths.restart(tail_start)
            self.guesses = Chain()
        self.text[tail_start:] = array("i", tail)
        self.landmarks.extend(self.text)
        self.paths.follow(self.text)

    def take(self, findings: Findings) -> None:
        """Aligns the paths that were found, unless the text was cut since the question."""
        if findings.length in self.landmarks.places:
            self.paths.add(findings.hits, findings.length, self.landmarks.digest(findings.length), self.text)

    def prefix(self, place: int) -> Prefix:
        """The text before a landmark."""
        return self.landmarks.prefix(place, self.text, None if self.features is None else self.features.before(place))

    def judge(self) -> int:
        """Tells the table what became of the last guesses; how many of them came true, one after the other."""
        if len(self.text) <= self.guessed_at:
            return 0
        lived = self.guesses.judge(self.text[self.guessed_at :], self.table)
        self.guesses = Chain()
        return lived


class CachedDrafter:
    """A Drafter of bounded state, see LiveRequests."""

    source = "cached"

    def __init__(self, config: CachedConfig, context: DrafterContext, files: DraftFiles) -> None:
        self._config = config
        self._context = context
        self._files = files
        self._requests: LiveRequests[_State] = LiveRequests(most=4 * context.max_num_seqs)

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        answers: list[tuple[DraftQuery, _State | None]] = [(query, self._synchronised(query)) for query in queries]
        # Before the findings are taken: those of these very questions may come while the others are being drafted for.
        asked = [self._question(query, state) for query, state in answers if state is not None]
        self._files.ask([question for question in asked if question is not None])
        for findings in self._files.answers():
            state = self._requests.get(findings.request_id)
            if state is not None:
                state.take(findings)
        for query, state in answers:
            if state is None:
                yield no_draft(query, need_from=self._requests.held(query))
            elif state.features is not None and state.features.lacks(query):
                yield no_draft(query, need_from=state.features.need_from)
            else:
                yield self._answer(query, state)

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        state = self._requests.pop(request_id)
        if state is None:
            return
        if tail and len(state.text) >= tail_start:
            state.ingest(tail_start, tail)
            self._credit(state)
        self._files.add(list(_continuations(state)))

    def _synchronised(self, query: DraftQuery) -> _State | None:
        """The request's state with the tail ingested; None where the drafter holds less than the tail builds on."""
        state = self._requests.meet(query, self._new_state, self.close)
        if state is None:
            return None
        state.ingest(query.tail_start, query.tail)
        if state.features is not None:
            state.features.write(query)
        self._credit(state)
        return state

    def _credit(self, state: _State) -> None:
        """Tells the files what came true of the last guesses."""
        if lived := state.judge():
            self._files.credit(
                [Credit(namespace=state.namespace, digest=each, accepted=lived) for each in state.helped_by]
            )

    def _new_state(self, query: DraftQuery) -> _State:
        pooling = self._config.pooling
        return _State(
            namespace=namespace_of(self._config, self._context, query.tenant),
            prompt_len=query.prompt_len,
            landmarks=Landmarks(query.prompt_len),
            features=None if pooling == "none" else PrefixFeatures(pooling),
        )

    def _question(self, query: DraftQuery, state: _State) -> Question | None:
        """Asks about the last landmark, once without its feature, where that has yet to come, and once with it."""
        places = state.landmarks.places
        if not places or (places[-1] > state.prompt_len and state.paths.ahead >= FEW_AHEAD):
            return None
        prefix = state.prefix(places[-1])
        asking = (places[-1], prefix.feature is not None)
        if asking <= state.looked_up:
            return None
        state.looked_up = asking
        return Question(request_id=query.request_id, namespace=state.namespace, prefix=prefix)

    def _answer(self, query: DraftQuery, state: _State) -> DraftChunk:
        limit = min(query.budget, self._config.num_speculative_tokens)
        chains = self._chains(state, limit) if limit > 0 else []
        state.guessed_at, state.guesses = query.base_len, chains[0] if chains else Chain()
        draft = joined(query, chains, threshold=self._config.min_survival, source=self.source).best_prefix(limit)
        return whole(draft, source=self.source)

    def _chains(self, state: _State, limit: int) -> list[Chain]:
        """The chain that most paths agree on; others' first tokens follow where branches are on."""
        matched, runs = state.paths.runs(limit)
        if not runs:
            return []
        state.helped_by = state.paths.digests()
        walker = Walker(source=Source.FILED, table=state.table, threshold=self._config.min_survival)
        chain = walker.walk(runs, max(matched, 1))
        if self._config.num_branches == 1 or not chain.tokens:
            return [chain]
        rivals = sorted(walker.rivals(runs, max(matched, 1), chain), key=lambda rival: -sum(rival.survival))
        return [chain, *rivals][: self._config.num_branches]


def _continuations(state: _State) -> Iterator[Continuation]:
    """What to remember of a text: how it went on after each landmark."""
    for place in state.landmarks.places:
        path = tuple(state.text[place : place + MAX_PATH])
        if len(path) >= MIN_PATH:
            yield Continuation(namespace=state.namespace, prefix=state.prefix(place), tokens=path)


def build_cached(config: CachedConfig, context: DrafterContext) -> CachedDrafter:
    """A drafter over the draft files in `context`, which whoever builds it opens."""
    assert context.draft_files is not None, "services opens the draft files of a configuration"
    return CachedDrafter(config, context, context.draft_files)
