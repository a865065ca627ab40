"""What an engine tells its drafter of how a request ended."""

from __future__ import annotations

import pytest

from modeling.target import Target
from protos.messages import DraftChunk, Finish, Speculative, Tokens
from services.transports.local import LocalDrafter
from tests.fakes.requests import request
from tests.fakes.running import Outcome, run
from tests.fakes.scripted import Scripted
from tests.verifier.conftest import MakeEngine
from verifier.acceptance import Acceptance, accept_match

PROMPT = list(request().prompt_ids)


class Informed(Scripted):
    """Keeps what each close told."""

    def __init__(self, answers: dict[Tokens, Tokens], *, vocab_size: int) -> None:
        super().__init__(answers, vocab_size=vocab_size, right=2, source="informed")
        self.told: dict[str, tuple[int, Tokens]] = {}

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        self.told[request_id] = tail_start, tail
        super().close(request_id, tail_start=tail_start, tail=tail)


@pytest.fixture
def base(make_engine: MakeEngine) -> Outcome:
    return run(make_engine(), [request()])["r"]


@pytest.fixture
def drafter(base: Outcome, tiny_target: Target) -> Informed:
    return Informed({request().prompt_ids: tuple(base.tokens)}, vocab_size=tiny_target.vocab_size)


@pytest.mark.parametrize("max_tokens", [3, 4, 5, 6, 24])
def test_an_answer_of_full_length_is_known_to_its_end(
    make_engine: MakeEngine, drafter: Informed, base: Outcome, max_tokens: int
) -> None:
    run(make_engine(drafter), [request(max_tokens=max_tokens)])
    assert drafter.finished == {"r": PROMPT + base.tokens[:max_tokens]}


@pytest.mark.parametrize("place", range(1, 8))
def test_an_answer_that_stopped_is_known_with_its_stop(
    make_engine: MakeEngine, drafter: Informed, base: Outcome, place: int
) -> None:
    stop = base.tokens[place]
    outcome = run(make_engine(drafter), [request(stop_token_ids=[stop])])["r"]
    assert outcome.tokens[-1] == stop
    assert drafter.finished == {"r": PROMPT + outcome.tokens}


def test_a_drafter_whose_answers_are_lost_learns_the_whole_text(
    make_engine: MakeEngine, drafter: Informed, base: Outcome
) -> None:
    class Mute(LocalDrafter):
        def collect(self, deadline: float) -> list[DraftChunk]:
            super().collect(deadline)
            return []

    engine = make_engine()
    engine._drafter = Mute(drafter)
    run(engine, [request()])
    assert drafter.told == {"r": (0, (*PROMPT, *base.tokens))}
    assert drafter.finished == {"r": PROMPT + base.tokens}


def test_an_abort_tells_what_was_committed(make_engine: MakeEngine, drafter: Informed) -> None:
    engine = make_engine(drafter)
    engine.add(request())
    tokens: list[int] = []
    while len(tokens) < 8:
        tokens += [token for verdict in engine.step() for token in verdict.tokens]
    assert len(drafter.texts["r"]) < len(PROMPT + tokens)
    engine.abort("r")
    (verdict,) = engine.step()
    assert verdict.finish is Finish.ABORT
    assert drafter.finished == {"r": PROMPT + tokens}


def test_an_error_tells_no_ending(make_engine: MakeEngine, drafter: Informed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokens that were drawn before the failure are nobody's."""

    def fails_late(draft: object, rows: object) -> Acceptance:
        accepted = accept_match(draft, rows)  # type: ignore[arg-type]
        if draft.base_len > len(PROMPT) + 4:  # type: ignore[attr-defined]
            raise RuntimeError("injected")
        return accepted

    monkeypatch.setattr("verifier.engine.accept_match", fails_late)
    outcome = run(make_engine(drafter), [request()])["r"]
    assert outcome.finish is Finish.ERROR
    assert drafter.told["r"][1] == ()
    assert drafter.finished == {"r": PROMPT + outcome.tokens}


def test_who_was_not_asked_learns_nothing(make_engine: MakeEngine, drafter: Informed) -> None:
    engine = make_engine(drafter)
    engine.add(request("waiting"))
    engine.abort("waiting")
    run(engine, [request("off", speculative=Speculative(enabled=False)), request("short", max_tokens=1)])
    assert drafter.told == dict.fromkeys(("waiting", "off", "short"), (0, ()))


def test_a_drafter_that_asked_for_the_text_again_knows_all_of_it(
    make_engine: MakeEngine, drafter: Informed, base: Outcome
) -> None:
    def forgets(step: int) -> None:
        if step == 3:
            assert drafter.texts.pop("r")

    run(make_engine(drafter), [request()], each_step=forgets)
    assert drafter.finished == {"r": PROMPT + base.tokens}
