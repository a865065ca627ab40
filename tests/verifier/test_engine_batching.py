"""Admission, rows of a step, slots, and what survives errors and aborts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from modeling.target import Target
from modeling.work import Forward, Work
from protos.messages import DraftChunk, Finish, Speculative
from tests.fakes.requests import request
from tests.fakes.running import run
from tests.fakes.scripted import oracle, partial
from tests.verifier.conftest import MakeEngine
from verifier.admission import QueueFullError
from verifier.engine import Engine


class Recording:
    """A runner that notes every forward's works, and fails where told to."""

    def __init__(self, engine: Engine) -> None:
        self.works: list[list[Work]] = []
        self.fail_at: int | None = None
        self._real = engine._target.runner.forward
        engine._target = replace(engine._target, runner=self)
        self.num_slots, self.max_len, self.keep_path = 4, 512, lambda *_: None

    def forward(self, works: list[Work]) -> Forward:
        self.works.append(works)
        if self.fail_at == len(self.works):
            raise RuntimeError("injected")
        return self._real(works)


def test_rows_of_a_step_are_bounded_and_streams_go_on_beside_long_prompts(make_engine: MakeEngine) -> None:
    """Cases L3, L6: a running stream gets a token in every step while twenty long prompts arrive."""
    engine = make_engine(max_num_batched_tokens=32)
    recording = Recording(engine)
    engine.add(request("stream", max_tokens=60))
    gaps, since = [], 0
    while not engine.stats().generation_tokens:
        engine.step()
    for i in range(20):
        engine.add(request(f"long{i}", prompt=bytes(range(200)) * 2, max_tokens=2))
    while engine.has_work:
        got = {v.request_id for v in engine.step()}
        since = 0 if "stream" in got else since + 1
        gaps.append(since)
        if engine.stats().finished.get("length"):
            break
    assert max(gaps) == 0
    assert all(sum(len(w.tokens) for w in works) <= 32 for works in recording.works)


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
    assert outcome.stats.num_drafts == 0


def test_draft_length_may_change_from_step_to_step(make_engine: MakeEngine, tiny_target: Target) -> None:
    """Case L2: lengths 7, 3, 1, 0, 5 in turn."""
    base = run(make_engine(), [request(max_tokens=40)])["r"]
    drafter = oracle({request().prompt_ids: tuple(base.tokens)}, vocab_size=tiny_target.vocab_size)
    engine = make_engine(drafter)
    lengths = [7, 3, 1, 0, 5]

    def each_step(step: int) -> None:
        engine._config = replace(engine._config, num_speculative_tokens=lengths[step % len(lengths)])

    assert run(engine, [request(max_tokens=40)], each_step=each_step)["r"].tokens == base.tokens


def test_a_failed_forward_ends_its_requests_and_nothing_else(make_engine: MakeEngine, tiny_target: Target) -> None:
    """Case K7: an exception in a verification; the next request is right."""
    base = run(make_engine(), [request()])["r"]
    drafter = oracle({request().prompt_ids: tuple(base.tokens)}, vocab_size=tiny_target.vocab_size)
    engine = make_engine(drafter)
    recording = Recording(engine)
    recording.fail_at = 3
    failed = run(engine, [request("hit")])["hit"]
    assert failed.finish is Finish.ERROR
    assert failed.error is not None
    assert engine.stats().num_requests_running == 0
    assert run(engine, [request("next")])["next"].tokens == base.tokens


def test_a_hundred_aborts_leave_nothing_behind(make_engine: MakeEngine) -> None:
    """Case A4."""
    base = run(make_engine(), [request()])["r"]
    engine = make_engine()
    for i in range(100):
        engine.add(request(f"gone{i}", temperature=1.0, seed=i))
        if i % 3:
            engine.step()
        engine.abort(f"gone{i}")
    run(engine, [])
    assert engine.stats().kv_cache_usage == 0
    assert engine.stats().finished == {"abort": 100}
    assert run(engine, [request()])["r"].tokens == base.tokens


def test_an_aborted_request_says_so(make_engine: MakeEngine) -> None:
    engine = make_engine()
    engine.add(request())
    engine.step()
    engine.abort("r")
    engine.abort("unknown")
    assert [(v.request_id, v.finish) for v in engine.step()] == [("r", Finish.ABORT)]


def test_a_full_queue_refuses(make_engine: MakeEngine) -> None:
    engine = make_engine(max_waiting=2)
    for i in range(2):
        engine.add(request(f"r{i}"))
    with pytest.raises(QueueFullError) as refused:
        engine.add(request("r2"))
    assert refused.value.retry_after_s >= 1
    assert len(run(engine, [])) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prompt": b""}, "empty"),
        ({"prompt": bytes(512)}, "512 tokens"),
        ({"max_tokens": 600}, "max_tokens is 600.*lower max_tokens to 493"),
        ({"logit_bias": {258: 1.0}}, "258"),
        ({"stop_token_ids": [999]}, "999"),
        ({"n": 2}, "n is 2"),
    ],
)
def test_what_can_never_run_is_refused_with_the_reason(
    make_engine: MakeEngine, options: dict[str, object], words: str
) -> None:
    """Cases Z2, Z4."""
    engine = make_engine()
    with pytest.raises(ValueError, match=words):
        engine.add(request(**options))
    assert not engine.has_work


def test_ids_beyond_the_vocabulary_are_refused(make_engine: MakeEngine) -> None:
    with pytest.raises(ValueError, match="token id 300"):
        make_engine().add(replace(request(), prompt_ids=(1, 300)))


def test_the_same_id_twice_is_refused(make_engine: MakeEngine) -> None:
    engine = make_engine()
    engine.add(request())
    with pytest.raises(ValueError, match="running already"):
        engine.add(request())


def test_more_requests_than_slots_all_finish_with_their_own_text(make_engine: MakeEngine) -> None:
    """Case B2."""
    prompts = [bytes([65 + i]) * (5 + i) for i in range(11)]
    alone = [run(make_engine(), [request(prompt=p)])["r"].tokens for p in prompts]
    together = run(make_engine(), [request(str(i), prompt=p) for i, p in enumerate(prompts)])
    assert [together[str(i)].tokens for i in range(11)] == alone


def test_prefixes_are_reused_within_a_tenant_only(make_engine: MakeEngine) -> None:
    """Case Z6: B never hits A's prompt, A does."""
    engine = make_engine()
    hits = {}
    for name, tenant in (("a", "A"), ("b", "B"), ("again", "A")):
        stats = run(engine, [request(name, tenant=tenant)])[name].stats
        hits[name] = stats.cached_prompt_tokens
    assert hits == {"a": 0, "b": 0, "again": len(request().prompt_ids) - 1}


def test_a_reused_prefix_holds_committed_tokens_only(make_engine: MakeEngine, tiny_target: Target) -> None:
    """Case K5: rejected drafts and the tokens after a cut are not in the next request's prefix."""
    base = run(make_engine(), [request()])["r"]
    drafter = partial({request().prompt_ids: tuple(base.tokens)}, 2, vocab_size=tiny_target.vocab_size)
    engine = make_engine(drafter)
    first = run(engine, [request("one", max_tokens=10)])["one"]
    longer = replace(request("two"), prompt_ids=request().prompt_ids + tuple(first.tokens) + (65, 66))
    second = run(engine, [longer])["two"]
    assert second.stats.cached_prompt_tokens <= len(request().prompt_ids) + len(first.tokens)
    assert second.tokens == run(make_engine(), [replace(longer, request_id="alone")])["alone"].tokens


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

    def close(self, request_id: str) -> None: ...

    def status(self) -> None: ...

    def shutdown(self) -> None: ...


def test_nonsense_from_a_drafter_costs_time_only(make_engine: MakeEngine, tiny_target: Target) -> None:
    base = run(make_engine(), [request()])["r"]
    engine = make_engine()
    engine._drafter = Nonsense(tiny_target.vocab_size)
    outcome = run(engine, [request()])["r"]
    assert outcome.tokens == base.tokens
    assert outcome.stats.verified > 0


def test_counts_agree_with_each_other(make_engine: MakeEngine, tiny_target: Target) -> None:
    """Cases X2, X5: accepted length is 1 + the rates by position; proposed and verified are told apart."""
    base = run(make_engine(), [request(max_tokens=60)])["r"]
    drafter = partial({request().prompt_ids: tuple(base.tokens)}, 2, vocab_size=tiny_target.vocab_size)
    engine = make_engine(drafter)
    outcome = run(engine, [request(max_tokens=60)])["r"]
    stats, own = engine.stats(), outcome.stats
    assert stats.generation_tokens == len(outcome.tokens) == 60
    assert stats.num_drafts == own.num_drafts > 0
    assert stats.num_accepted_tokens == sum(own.accepted_per_pos) == own.accepted
    assert len(outcome.tokens) == own.steps + own.accepted
    assert stats.num_draft_tokens >= stats.num_verified_tokens >= stats.num_accepted_tokens
    assert own.accepted_per_pos[0] <= own.num_drafts
    assert own.sources == {"partial(2)": own.accepted}


@pytest.mark.parametrize("acceptance", ["match", "ratio"])
def test_ratio_acceptance_runs_and_greedy_text_is_the_plain_one(
    make_engine: MakeEngine, tiny_target: Target, acceptance: str
) -> None:
    base = run(make_engine(), [request()])["r"]
    drafter = partial({request().prompt_ids: tuple(base.tokens)}, 2, vocab_size=tiny_target.vocab_size, tree=True)
    engine = make_engine(drafter, acceptance=acceptance)
    assert run(engine, [request()])["r"].tokens == base.tokens
    assert len(run(engine, [request(temperature=1.0)])["r"].tokens) == 24


def test_too_few_rows_for_the_slots_are_refused(make_engine: MakeEngine) -> None:
    with pytest.raises(ValueError, match="max_num_batched_tokens is 7"):
        make_engine(max_num_batched_tokens=7)


def test_ties_go_to_the_lowest_id_in_decode_and_verify(tiny_target: Target) -> None:
    """Case C2, through both paths that an engine takes."""
    from modeling.ranking import argmax_lowest
    from modeling.sampling import TokenSampler

    logits = torch.zeros(3, 258)
    logits[:, [7, 200]] = 2.0
    sampler = TokenSampler(request().params, prompt_ids=(1,), stop_ids=(), vocab_size=258)
    assert argmax_lowest(logits).tolist() == [7, 7, 7]
    assert sampler.draw(logits[0], 4) == 7
