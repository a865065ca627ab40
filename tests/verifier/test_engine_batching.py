"""Admission, rows of a step, slots, and what survives errors and aborts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modeling.target import Target
from protos.draft import Draft
from protos.messages import Finish
from tests.fakes.recording import Recording
from tests.fakes.requests import request
from tests.fakes.running import run
from tests.fakes.scripted import oracle, partial
from tests.verifier.conftest import MakeEngine
from verifier.acceptance import Acceptance, accept_match
from verifier.admission import QueueFullError
from verifier.target_rows import SequenceRows


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


def test_a_failed_acceptance_ends_its_request_alone_and_half_tells_nothing(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case K7: the tokens that were drawn before the exception come neither as ids nor as text."""
    base = run(make_engine(), [request()])["r"]
    engine = make_engine()

    def fails_for_one(draft: Draft, rows: SequenceRows) -> Acceptance:
        accepted = accept_match(draft, rows)
        if draft.request_id == "hit" and draft.base_len == len(request().prompt_ids) + 3:
            raise RuntimeError("injected")
        return accepted

    monkeypatch.setattr("verifier.engine.accept_match", fails_for_one)
    answers = run(engine, [request("hit"), request("beside")])
    hit = answers["hit"]
    assert (hit.finish, hit.error) == (Finish.ERROR, "acceptance failed")
    assert hit.tokens == base.tokens[:3]
    assert base.text.startswith(hit.text)
    assert len(hit.text) < len(base.text)
    assert answers["beside"].tokens == base.tokens
    assert engine.stats().num_requests_running == 0


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


@pytest.mark.parametrize("waiting", [0, 2])
def test_a_full_queue_refuses(make_engine: MakeEngine, waiting: int) -> None:
    """Free slots do not count as waiting: four run at once here, and `waiting` more may queue."""
    engine = make_engine(max_waiting=waiting)
    for i in range(4 + waiting):
        engine.add(request(f"r{i}"))
    with pytest.raises(QueueFullError) as refused:
        engine.add(request("too many"))
    assert refused.value.retry_after_s >= 1
    assert len(run(engine, [])) == 4 + waiting


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


def test_conversations_with_a_common_beginning_keep_their_own_prefixes(make_engine: MakeEngine) -> None:
    """Two texts that share a template do not drive each other out; the shared part is copied, and the text is right."""
    engine = make_engine()
    template = b"system: you are helpful. user: "
    talks = {name: template + name.encode() * 40 for name in ("a", "b", "c")}
    alone = {name: run(make_engine(), [request(prompt=talk)])["r"].tokens for name, talk in talks.items()}
    cached = {}
    for turn in ("first", "second"):
        for name, talk in talks.items():
            outcome = run(engine, [request(name, prompt=talk)])[name]
            assert outcome.tokens == alone[name]
            cached[name, turn] = outcome.stats.cached_prompt_tokens
    assert [cached[name, "first"] for name in talks] == [0, len(template), len(template)]
    assert all(cached[name, "second"] == len(talk) - 1 for name, talk in talks.items())


def test_probes_of_a_token_or_two_do_not_drive_out_prefixes(make_engine: MakeEngine) -> None:
    engine = make_engine()
    run(engine, [request("talk")])
    for i in range(20):
        run(engine, [request(f"probe{i}", prompt=b"?", max_tokens=1)])
    again = run(engine, [request("again")])["again"]
    assert again.stats.cached_prompt_tokens == len(request().prompt_ids) - 1


def test_a_reused_prefix_holds_committed_tokens_only(make_engine: MakeEngine, tiny_target: Target) -> None:
    """Case K5: rejected drafts and the tokens after a cut are not in the next request's prefix."""
    base = run(make_engine(), [request()])["r"]
    drafter = partial({request().prompt_ids: tuple(base.tokens)}, 2, vocab_size=tiny_target.vocab_size)
    engine = make_engine(drafter)
    first = run(engine, [request("one", max_tokens=10)])["one"]
    whole = request().prompt_ids + tuple(first.tokens)
    longer = replace(request("two"), prompt_ids=whole + whole[:8])
    second = run(engine, [longer])["two"]
    assert second.stats.cached_prompt_tokens <= len(whole)
    assert second.tokens == run(make_engine(), [replace(longer, request_id="alone")])["alone"].tokens


def test_too_few_rows_for_the_slots_are_refused(make_engine: MakeEngine) -> None:
    with pytest.raises(ValueError, match="max_num_batched_tokens is 7"):
        make_engine(max_num_batched_tokens=7)
