"""mixed: the better draft wins, a model runs where it pays, and what befalls one source does not befall the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from drafters.mixed import Mixed
from drafters.mixed_round import Source
from protos.interfaces import Drafter
from protos.messages import DraftChunk, DraftQuery, Tokens
from tests.fakes.queries import query
from tests.fakes.scripted import Scripted, adversary, oracle, partial

PROMPT: Tokens = (1, 2, 3)
ANSWER: Tokens = tuple((7 * i) % 50 for i in range(120))
TEXT = PROMPT + ANSWER
VOCAB_SIZE = 64
ANSWERS = {PROMPT: ANSWER}


class Watched:
    """Drafts as `inner` does, under a name of its own; keeps its queries, call by call. Fails where told to."""

    def __init__(self, inner: Scripted) -> None:
        self.inner = inner
        self.name = ""
        self.calls: list[list[DraftQuery]] = []
        self.fails_at = ""

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        self.calls.append(list(queries))
        for each in queries:
            if each.request_id == self.fails_at:
                raise ArithmeticError("no luck")
            yield from (replace(chunk, source=self.name) for chunk in self.inner.draft([each]))

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        self.inner.close(request_id, tail_start=tail_start, tail=tail)

    @property
    def budgets(self) -> list[int]:
        return [each.budget for call in self.calls for each in call]


def sure(right: int) -> Watched:
    return Watched(partial(ANSWERS, right, vocab_size=VOCAB_SIZE))


def mixed(*, cheap: Watched, model: Watched) -> Mixed:
    cheap.name, model.name = "cheap", "model"
    sources = [
        Source(name="model", drafter=model, runs_model=True, longest=5),
        Source(name="cheap", drafter=cheap, runs_model=False, longest=5),
    ]
    return Mixed(sources, max_requests=8)


def ask(drafter: Drafter, *queries: DraftQuery) -> list[DraftChunk]:
    chunks = list(drafter.draft(queries))
    assert sum(chunk.last for chunk in chunks) == len(queries)
    assert chunks[-1].last
    return chunks


def follow(drafter: Drafter, *, stop: int, start: int = len(PROMPT), name: str = "r") -> list[str]:
    """Who drafted along the answer, as an engine asks that accepts what is right."""
    length, seen, drafted = start, 0, []
    while length < stop:
        (chunk,) = ask(drafter, query(TEXT[:length], seen=seen, budget=5, request_id=name))
        drafted.append(chunk.source)
        right = zip(chunk.tokens, TEXT[length:], strict=False)
        accepted = next((i for i, (guess, token) in enumerate(right) if guess != token), len(chunk.tokens))
        length, seen = length + accepted + 1, length
    return drafted


def test_the_source_wins_whose_promises_come_true() -> None:
    """Both promise the same; one source's drafts are all right, of the other's only the first token."""
    drafted = follow(mixed(cheap=sure(1), model=sure(9)), stop=100)
    assert set(drafted[5:]) == {"model"}


def test_a_model_is_not_run_where_it_usually_gets_less_far() -> None:
    cheap, model = sure(9), sure(0)
    drafted = follow(mixed(cheap=cheap, model=model), stop=100)
    assert set(drafted[5:]) == {"cheap"}
    assert set(model.budgets[5:]) == {0}
    assert set(cheap.budgets) == {5}


def test_a_model_that_only_reads_stays_in_step() -> None:
    """It is told every token, once, and drafts at once where the cheap source has nothing."""
    model = sure(9)
    cheap = Watched(oracle({PROMPT: ANSWER[:60]}, vocab_size=VOCAB_SIZE))
    drafter = mixed(cheap=cheap, model=model)
    drafted = follow(drafter, stop=100)
    told = [token for call in model.calls for each in call for token in each.tail]
    assert tuple(told) == TEXT[: len(told)]
    assert drafted[-1] == "model"
    assert "cheap" in drafted


def test_a_request_begins_with_what_others_have_shown() -> None:
    drafter = mixed(cheap=sure(1), model=sure(9))
    assert follow(drafter, stop=10, name="first")[0] == "cheap"
    follow(drafter, stop=100, name="second")
    assert follow(drafter, stop=10, name="third")[0] == "model"


def test_each_source_is_called_once_for_all_requests() -> None:
    cheap, model = sure(2), sure(2)
    ask(mixed(cheap=cheap, model=model), *(query(TEXT[: 4 + i], request_id=str(i)) for i in range(6)))
    assert [len(call) for call in cheap.calls + model.calls] == [6, 6]


def test_a_tree_is_worth_the_sum_of_its_nodes() -> None:
    tree = Watched(oracle(ANSWERS, vocab_size=VOCAB_SIZE, tree=True))
    (chunk,) = ask(mixed(cheap=tree, model=sure(9)), query(TEXT[:6], budget=5))
    assert (chunk.source, len(chunk.tokens)) == ("model", 5)
    assert set(follow(mixed(cheap=tree, model=sure(0)), stop=100)[5:]) == {"cheap"}


@pytest.mark.parametrize("lost", ["cheap", "model"])
def test_a_source_that_lost_its_state_gets_the_text_again_and_no_other_does(lost: str) -> None:
    sources = {"cheap": sure(2), "model": sure(2)}
    drafter, other = mixed(**sources), sources["model" if lost == "cheap" else "cheap"]
    ask(drafter, query(TEXT[:10]))
    sources[lost].close("r")
    draft, request = ask(drafter, query(TEXT[:12], seen=10))
    assert (len(draft.tokens), draft.last, draft.source) == (8, False, "model" if lost == "cheap" else "cheap")
    assert (request.tokens, request.need_from) == ((), 0)
    (whole,) = ask(drafter, query(TEXT[:15]))
    assert whole.need_from is None
    assert sources[lost].calls[-1][0].tail == TEXT[:15]
    assert other.calls[-1][0].tail == TEXT[12:15]


def test_a_source_that_fails_is_left_alone_and_the_other_answers() -> None:
    cheap, model = sure(2), sure(2)
    drafter = mixed(cheap=cheap, model=model)
    model.fails_at = "r"
    failed, draft = ask(drafter, query(TEXT[:10]))
    assert (failed.error, failed.last, failed.tokens) == ("model: ArithmeticError: no luck", False, ())
    assert (draft.source, draft.last, draft.need_from) == ("cheap", True, None)
    (draft,) = ask(drafter, query(TEXT[:12], seen=10))
    assert (draft.source, len(model.calls)) == ("cheap", 1)
    ask(drafter, query(TEXT[:10], request_id="other"))
    assert len(model.calls) == 2


def test_what_is_cut_or_asked_twice_counts_once() -> None:
    """A draft of a text that was taken back says nothing of its source, and the same answer twice no more than once."""
    drafter = mixed(cheap=sure(9), model=sure(0))
    wrong = (*TEXT[:10], 60, 61)
    ask(drafter, query(TEXT[:10], budget=5))
    first = ask(drafter, query(wrong, seen=10, budget=5))
    assert first == ask(drafter, query(wrong, seen=10, budget=5))
    records = {name: standing.record for name, standing in drafter._requests.get("r").standings.items()}
    assert (records["cheap"]._drafts, records["cheap"]._lived) == (1, 0)
    ask(drafter, query(TEXT[:16], seen=10, budget=5))
    assert (records["cheap"]._drafts, records["cheap"]._lived) == (1, 0)
    ask(drafter, query(TEXT[:22], seen=16, budget=5))
    assert records["cheap"]._lived == pytest.approx(5, abs=0.1)


class TestSelection:
    """A request may name the one drafter that guesses for it."""

    def test_a_model(self) -> None:
        cheap, model = sure(9), sure(0)
        drafter = mixed(cheap=cheap, model=model)
        for length in range(4, 40):
            one = replace(query(TEXT[:length], seen=0 if length == 4 else length - 1), method="model")
            (chunk,) = ask(drafter, one)
            assert chunk.source == "model"
        assert set(cheap.budgets) == {0}

    def test_a_cheap_one_leaves_the_model_alone(self) -> None:
        cheap, model = sure(0), sure(9)
        drafter = mixed(cheap=cheap, model=model)
        for length in (4, 5):
            (chunk,) = ask(drafter, replace(query(TEXT[:length], seen=0 if length == 4 else 4), method="cheap"))
            assert chunk.source == "cheap"
        assert model.calls == []

    def test_an_unknown_name(self) -> None:
        (chunk,) = ask(mixed(cheap=sure(1), model=sure(1)), replace(query(TEXT[:5]), method="other"))
        assert chunk.error == "method 'other' is none of this drafter's; known: model, cheap"


def test_state_is_bounded_and_closed() -> None:
    cheap, model = sure(2), sure(2)
    drafter = mixed(cheap=cheap, model=model)
    for name in map(str, range(20)):
        ask(drafter, query(TEXT[:5], request_id=name))
    assert set(cheap.inner.texts) == set(model.inner.texts) == set(map(str, range(12, 20)))
    (chunk,) = ask(drafter, query(TEXT[:6], seen=5, request_id="3"))
    assert chunk.need_from == 0
    (chunk,) = ask(drafter, query(TEXT[:6], seen=5, request_id="19", tenant="another"))
    assert chunk.need_from == 0
    drafter.close("18")
    assert set(map(str, range(12, 18))) == set(cheap.inner.texts) == set(model.inner.texts)


class TestEnding:
    """Each source learns how a request ended, as far as it has followed it."""

    def test_sources_in_step(self) -> None:
        cheap, model = sure(2), sure(0)
        drafter = mixed(cheap=cheap, model=model)
        follow(drafter, stop=20)
        drafter.close("r", tail_start=10, tail=TEXT[10:30])
        assert cheap.inner.finished == model.inner.finished == {"r": list(TEXT[:30])}

    def test_a_source_that_was_left_alone_for_a_while(self) -> None:
        cheap, model = sure(2), sure(2)
        drafter = mixed(cheap=cheap, model=model)
        ask(drafter, query(TEXT[:10]))
        ask(drafter, replace(query(TEXT[:20], seen=10), method="cheap"))
        assert len(model.inner.texts["r"]) == 10
        drafter.close("r", tail_start=20, tail=TEXT[20:30])
        assert cheap.inner.finished == model.inner.finished == {"r": list(TEXT[:30])}

    def test_a_source_that_failed_is_told_nothing(self) -> None:
        cheap, model = sure(2), sure(2)
        drafter = mixed(cheap=cheap, model=model)
        ask(drafter, query(TEXT[:10]))
        model.fails_at = "r"
        ask(drafter, query(TEXT[:12], seen=10))
        drafter.close("r", tail_start=12, tail=TEXT[12:30])
        assert cheap.inner.finished == {"r": list(TEXT[:30])}
        assert model.inner.finished == {"r": list(TEXT[:10])}

    def test_a_tail_that_builds_on_more_than_was_told(self) -> None:
        cheap, model = sure(2), sure(2)
        drafter = mixed(cheap=cheap, model=model)
        ask(drafter, query(TEXT[:10]))
        drafter.close("r", tail_start=11, tail=TEXT[11:30])
        assert cheap.inner.finished == model.inner.finished == {"r": list(TEXT[:10])}


def test_an_adversary_costs_its_drafts_and_no_more() -> None:
    adverse = Watched(adversary(ANSWERS, vocab_size=VOCAB_SIZE))
    assert set(follow(mixed(cheap=adverse, model=sure(3)), stop=100)[5:]) == {"model"}
