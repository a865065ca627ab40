"""What an engine makes of drafts: bounded, counted, and harmless whatever they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from modeling.target import Target
from protos.messages import DraftChunk, DraftQuery, Speculative, Tokens
from tests.fakes.recording import Recording
from tests.fakes.requests import request
from tests.fakes.running import run
from tests.fakes.scripted import Scripted, oracle, partial
from tests.verifier.conftest import MakeEngine


def test_drafts_stay_within_the_limits_of_server_and_request(make_engine: MakeEngine, tiny_target: Target) -> None:
    """Case L5."""
    base = run(make_engine(), [request()])["r"]
    drafter = oracle({request().prompt_ids: tuple(base.tokens)}, vocab_size=tiny_target.vocab_size)
    for limit, own, most in ((3, None, 3), (7, 2, 2), (7, 50, 7)):
        engine = make_engine(drafter, num_speculative_tokens=limit)
        recording = Recording(engine)
        outcome = run(engine, [request(speculative=Speculative(num_speculative_tokens=own))])["r"]
        assert outcome.tokens == base.tokens
        assert max(len(w.tokens) - 1 for works in recording.works[1:] for w in works) == most


def test_speculation_switched_off_by_the_request(make_engine: MakeEngine, tiny_target: Target) -> None:
    base = run(make_engine(), [request()])["r"]
    drafter = oracle({request().prompt_ids: tuple(base.tokens)}, vocab_size=tiny_target.vocab_size)
    outcome = run(make_engine(drafter), [request(speculative=Speculative(enabled=False))])["r"]
    assert outcome.tokens == base.tokens
    assert outcome.stats.speculation.num_drafts == 0


def test_draft_length_may_change_from_step_to_step(make_engine: MakeEngine, tiny_target: Target) -> None:
    """Case L2: lengths 7, 3, 1, 0, 5 in turn."""
    base = run(make_engine(), [request(max_tokens=40)])["r"]
    drafter = oracle({request().prompt_ids: tuple(base.tokens)}, vocab_size=tiny_target.vocab_size)
    engine = make_engine(drafter)
    lengths = [7, 3, 1, 0, 5]

    def each_step(step: int) -> None:
        engine._config = replace(engine._config, num_speculative_tokens=lengths[step % len(lengths)])

    assert run(engine, [request(max_tokens=40)], each_step=each_step)["r"].tokens == base.tokens


class Nonsense:
    """A drafter at a distance that answers with whatever harms most."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.chunks: list[DraftChunk] = []

    def send(self, queries: object) -> None:
        self.chunks = []
        for q in queries:
            some = {"request_id": q.request_id, "source": "x"}
            self.chunks += [
                DraftChunk(base_len=q.base_len, tokens=(self.vocab_size,), parents=(-1,), survival=(1.0,), **some),
                DraftChunk(base_len=q.base_len, tokens=(-1,), parents=(-1,), survival=(1.0,), **some),
                DraftChunk(base_len=q.base_len + 5, tokens=(1,), parents=(-1,), survival=(1.0,), **some),
                DraftChunk(base_len=q.base_len, tokens=(1, 2), parents=(1, 0), survival=(1.0, 1.0), **some),
                DraftChunk(base_len=q.base_len, offset=4, tokens=(1,), parents=(0,), survival=(1.0,), **some),
                DraftChunk(
                    base_len=q.base_len, tokens=(1,) * 99, parents=tuple(range(-1, 98)), survival=(1.0,) * 99, **some
                ),
                DraftChunk(base_len=q.base_len, need_from=10**6, **some),
                DraftChunk(base_len=1, need_from=-4, **some),
                DraftChunk(base_len=0, tokens=(1,), parents=(-1,), survival=(1.0,), **(some | {"request_id": "?"})),
            ]

    def collect(self, deadline: float) -> list[DraftChunk]:
        return self.chunks

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None: ...

    def status(self) -> None: ...

    def shutdown(self) -> None: ...


def test_nonsense_from_a_drafter_costs_time_only(make_engine: MakeEngine, tiny_target: Target) -> None:
    base = run(make_engine(), [request()])["r"]
    engine = make_engine()
    engine._drafter = Nonsense(tiny_target.vocab_size)
    outcome = run(engine, [request()])["r"]
    assert outcome.tokens == base.tokens
    assert outcome.stats.speculation.verified > 0


def test_counts_agree_with_each_other(make_engine: MakeEngine, tiny_target: Target) -> None:
    """Cases X2, X5: accepted length is 1 + the rates by position; proposed and verified are told apart."""
    base = run(make_engine(), [request(max_tokens=60)])["r"]
    drafter = partial({request().prompt_ids: tuple(base.tokens)}, 2, vocab_size=tiny_target.vocab_size)
    engine = make_engine(drafter)
    outcome = run(engine, [request(max_tokens=60)])["r"]
    drafts = outcome.stats.speculation
    assert engine.stats().speculation == drafts
    assert engine.stats().generation_tokens == len(outcome.tokens) == 60
    assert len(outcome.tokens) == outcome.stats.steps + drafts.accepted
    assert drafts.drafted >= drafts.verified >= drafts.accepted > 0
    assert drafts.accepted_per_pos[0] <= drafts.num_drafts
    assert drafts.accepted_length == 1 + sum(drafts.acceptance_by_position)
    assert drafts.sources == {"partial(2)": drafts.accepted}


@pytest.mark.parametrize("acceptance", ["match", "ratio"])
def test_ratio_acceptance_runs_and_greedy_text_is_the_plain_one(
    make_engine: MakeEngine, tiny_target: Target, acceptance: str
) -> None:
    base = run(make_engine(), [request()])["r"]
    drafter = partial({request().prompt_ids: tuple(base.tokens)}, 2, vocab_size=tiny_target.vocab_size, tree=True)
    engine = make_engine(drafter, acceptance=acceptance)
    assert run(engine, [request()])["r"].tokens == base.tokens
    assert len(run(engine, [request(temperature=1.0)])["r"].tokens) == 24


def test_rows_go_to_the_likeliest_tokens_of_all_requests(make_engine: MakeEngine, tiny_target: Target) -> None:
    """With room for six draft tokens, they all go to the sure one, each of its tokens being likelier."""
    sure, unsure = (request(name, prompt=name.encode() * 3) for name in ("sure", "unsure"))
    bases = run(make_engine(), [sure, unsure])

    class Graded(Scripted):
        def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
            for chunk in super().draft(queries):
                level = 0.9 if chunk.request_id == "sure" else 0.5
                yield replace(chunk, survival=tuple(level**i for i in range(1, len(chunk.tokens) + 1)))

    answers = {r.prompt_ids: tuple(bases[r.request_id].tokens) for r in (sure, unsure)}
    engine = make_engine(Graded(answers, vocab_size=tiny_target.vocab_size, right=99, source="graded"))
    engine._batcher.max_rows = 8
    recording = Recording(engine)
    outcomes = run(engine, [sure, unsure])
    assert {name: outcome.tokens for name, outcome in outcomes.items()} == {n: b.tokens for n, b in bases.items()}
    both = [sorted(len(w.tokens) for w in works) for works in recording.works if len(works) == 2]
    assert [1, 7] in both
    assert all(sum(sizes) <= 8 for sizes in both)


def test_a_draft_beyond_its_budget_is_cut(make_engine: MakeEngine, tiny_target: Target) -> None:
    """Case L5: the limit is the engine's to keep."""
    base = run(make_engine(), [request()])["r"]

    class Eager(Scripted):
        def _nodes(self, truth: Tokens, budget: int) -> list[tuple[int, int, float]]:
            return super()._nodes(truth, budget + 10)

    answers = {request().prompt_ids: tuple(base.tokens)}
    engine = make_engine(Eager(answers, vocab_size=tiny_target.vocab_size, right=99, source="eager"))
    recording = Recording(engine)
    outcome = run(engine, [request(speculative=Speculative(num_speculative_tokens=3))])["r"]
    assert outcome.tokens == base.tokens
    assert max(len(w.tokens) for works in recording.works[1:] for w in works) == 4
