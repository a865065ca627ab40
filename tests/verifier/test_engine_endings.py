"""Where a text ends: end tokens, stop strings and lengths, also in the middle of an accepted draft."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modeling.target import Target
from protos.messages import Finish
from tests.fakes.requests import request
from tests.fakes.running import Outcome, run
from tests.fakes.scripted import oracle
from tests.verifier.conftest import MakeEngine


@pytest.fixture
def base(make_engine: MakeEngine) -> Outcome:
    return run(make_engine(), [request()])["r"]


def with_oracle(make_engine: MakeEngine, target: Target, base: Outcome, **options: object) -> Outcome:
    drafter = oracle({request().prompt_ids: tuple(base.tokens)}, vocab_size=target.vocab_size)
    return run(make_engine(drafter), [request(**options)])["r"]


@pytest.mark.parametrize("place", range(1, 9))
def test_an_end_token_inside_a_block_ends_the_text(
    make_engine: MakeEngine, tiny_target: Target, base: Outcome, place: int
) -> None:
    """Case E1: one of the produced tokens is declared to be the stop."""
    stop = base.tokens[place]
    expected = base.tokens[: base.tokens.index(stop) + 1]
    outcome = with_oracle(make_engine, tiny_target, base, stop_token_ids=[stop])
    plain = run(make_engine(), [request(stop_token_ids=[stop])])["r"]
    assert outcome.tokens == expected == plain.tokens
    assert outcome.text == plain.text
    assert (outcome.finish, outcome.stop_reason) == (Finish.STOP, stop)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 7, 8, 9])
def test_max_tokens_is_exact(make_engine: MakeEngine, tiny_target: Target, base: Outcome, length: int) -> None:
    """Case E4."""
    outcome = with_oracle(make_engine, tiny_target, base, max_tokens=length)
    assert outcome.tokens == base.tokens[:length]
    assert outcome.finish is Finish.LENGTH


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_string_inside_a_block_cuts_the_text(
    make_engine: MakeEngine, tiny_target: Target, base: Outcome, include: bool
) -> None:
    """Case E2: the text ends before the stop string (after it, where asked), and ids and logprobs end with it."""
    stop = tiny_target.tokenizer.decode(base.tokens[3:5])
    at = base.text.index(stop)
    options = {"stop": [stop], "include_stop_str_in_output": include, "logprobs": 0}
    outcome = with_oracle(make_engine, tiny_target, base, **options)
    plain = run(make_engine(), [request(**options)])["r"]
    assert outcome.text == base.text[: at + len(stop) * include] == plain.text
    assert outcome.tokens == plain.tokens
    assert len(outcome.logprobs) == len(outcome.tokens)
    assert (outcome.finish, outcome.stop_reason) == (Finish.STOP, stop)


def test_text_held_for_a_stop_string_that_never_comes_is_shown_at_the_end(
    make_engine: MakeEngine, base: Outcome
) -> None:
    outcome = run(make_engine(), [request(stop=[base.text[-3:] + "never"])])["r"]
    assert outcome.text == base.text


def test_min_tokens_holds_off_every_end(make_engine: MakeEngine, tiny_target: Target, base: Outcome) -> None:
    options = {"stop_token_ids": [base.tokens[1]], "min_tokens": 6}
    plain = run(make_engine(), [request(**options)])["r"]
    drafter = oracle({request().prompt_ids: tuple(plain.tokens)}, vocab_size=tiny_target.vocab_size)
    outcome = run(make_engine(drafter), [request(**options)])["r"]
    assert outcome.tokens == plain.tokens
    assert base.tokens[1] not in outcome.tokens[:6]
    assert len(outcome.tokens) > 6


def test_logprobs_are_the_plain_ones_for_drafted_tokens(
    make_engine: MakeEngine, tiny_target: Target, base: Outcome
) -> None:
    """Case S9: one entry a token, equal to plain decoding."""
    plain = run(make_engine(), [request(logprobs=5)])["r"]
    outcome = with_oracle(make_engine, tiny_target, base, logprobs=5)
    assert outcome.stats.speculation.accepted > 0
    assert outcome.logprobs == plain.logprobs
    assert len(outcome.logprobs) == len(outcome.tokens)
    assert all(entry.logprob < 0 and len(entry.top) == 5 for entry in outcome.logprobs)


def test_continuing_a_text_with_the_same_seed_gives_the_same_text(make_engine: MakeEngine) -> None:
    """Case E8: noise belongs to absolute positions, so a cut text continues as it would have gone on."""
    options = {"temperature": 1.0, "seed": 5}
    whole = run(make_engine(), [request(**options)])["r"].tokens
    rest = request(**options, max_tokens=15)
    rest = replace(rest, prompt_ids=rest.prompt_ids + tuple(whole[:9]))
    assert run(make_engine(), [rest])["r"].tokens == whole[9:]
