"""The suffix drafter: what repeats is drafted, what does not is left alone, and tenants see only their own."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from drafters.mixed import Mixed
from drafters.mixed_round import Source
from drafters.suffix import SuffixDrafter
from drafters.suffix_config import SuffixConfig
from protos.interfaces import AsyncDrafter, Drafter
from protos.messages import DraftChunk
from tests.drafters.contract import DrafterContract, joined
from tests.fakes.queries import query, with_prompt
from tests.fakes.scripted import oracle


def make(**config: object) -> SuffixDrafter:
    return SuffixDrafter(SuffixConfig(**config), max_requests=8)  # type: ignore[arg-type]


class TestSuffix(DrafterContract):
    def make_drafter(self) -> Drafter:
        return make()

    @pytest.mark.parametrize("start", [45, 50])
    def test_an_answer_is_remembered_to_its_end(self, drafter: AsyncDrafter, start: int) -> None:
        """The tokens after the last query, over whatever transport, also where some of them are there already."""
        text = words(18, 100)
        self.ask_one(drafter, with_prompt(query(text[:50]), 40))
        drafter.close("r", tail_start=start, tail=tuple(text[start:]))
        for length in (48, 70, 96):
            chunk = self.ask_one(drafter, query(text[40:length], request_id=f"after {length}", budget=4))
            assert chunk.tokens == tuple(text[length : length + 4])

    @pytest.mark.parametrize(("start", "stop"), [(51, 100), (50, 50)])
    def test_an_ending_that_is_not_known_adds_nothing(self, drafter: AsyncDrafter, start: int, stop: int) -> None:
        text = words(18, 100)
        self.ask_one(drafter, with_prompt(query(text[:50]), 40))
        drafter.close("r", tail_start=start, tail=tuple(text[start:stop]))
        assert self.ask_one(drafter, query(text[40:48], request_id="before")).tokens == tuple(text[48:50])
        assert self.ask_one(drafter, query(text[55:70], request_id="after")).tokens == ()


class TestSuffixTree(TestSuffix):
    def make_drafter(self) -> Drafter:
        return make(num_branches=4)


class TestSuffixAmongOthers(TestSuffix):
    """Behind mixed, beside one that never drafts anything."""

    def make_drafter(self) -> Drafter:
        other = oracle({}, vocab_size=50_000)
        sources = [
            Source(name="suffix", drafter=make(), runs_model=False, longest=16),
            Source(name="other", drafter=other, runs_model=True, longest=16),
        ]
        return Mixed(sources, max_requests=8)


def replay(
    drafter: Drafter, prompt: Sequence[int], answer: Sequence[int], *, name: str = "r", tenant: str = ""
) -> tuple[int, int]:
    """Verifies each draft against a known answer; gives (steps, tokens verified). Its end comes with the close."""
    text, done, seen, verified, steps = [*prompt, *answer], len(prompt) + 1, 0, 0, 0
    while done < len(text):
        asked = query(text[:done], seen=seen, budget=16, request_id=name, tenant=tenant)
        (chunk,) = drafter.draft([with_prompt(asked, len(prompt))])
        seen, verified, steps = done, verified + len(chunk.tokens), steps + 1
        done += 1 + accepted(chunk, text[done:])
    drafter.close(name, tail_start=seen, tail=tuple(text[seen:]))
    return steps, verified


def accepted(chunk: DraftChunk, truth: Sequence[int]) -> int:
    node, count = -1, 0
    for token in truth[:-1]:
        children = [i for i, t in enumerate(chunk.tokens) if t == token and chunk.parents[i] == node]
        if not children:
            break
        node, count = children[0], count + 1
    return count


def words(seed: int, size: int) -> list[int]:
    return random.Random(seed).choices(range(50_000), k=size)


def test_copied_text_comes_in_long_drafts() -> None:
    document = words(1, 300)
    steps, verified = replay(make(), [*document, 7], document)
    assert 300 / steps > 8
    assert verified < 400


def test_a_short_loop_is_guessed_to_any_length() -> None:
    (chunk,) = make().draft([query([1, 2, 3] * 6, budget=16)])
    assert chunk.tokens == (1, 2, 3) * 5 + (1,)


def test_text_that_repeats_nothing_is_left_alone() -> None:
    steps, verified = replay(make(), words(2, 200), words(3, 400))
    assert verified <= 0.03 * steps


@pytest.mark.parametrize("tokens", [5, 40])
def test_repeated_single_tokens_are_dropped_once_they_have_not_paid(tokens: int) -> None:
    """A few common tokens between others that never come twice: chance matches, always wrong."""
    rng = random.Random(4)
    text = [rng.randrange(tokens) if i % 3 == 0 else 1000 + i for i in range(900)]
    _, early = replay(make(), text[:2], text[2:300])
    steps, verified = replay(make(), text[:2], text[2:])
    assert verified / steps < 1
    assert verified - early < 2 * early


def test_draft_grows_with_the_match() -> None:
    def drafted(match: int) -> int:
        copied = words(5, 60)
        config = {"suffix_decoding_max_spec_factor": 1.0, "suffix_decoding_max_spec_offset": 0.0}
        (chunk,) = make(**config).draft([query([*copied, 9, *copied[:match]], budget=32)])
        return len(chunk.tokens)

    lengths = [drafted(match) for match in (1, 2, 4, 8, 16)]
    assert lengths == sorted(lengths)
    assert lengths[0] == 1 < lengths[-1] <= 16


def test_survival_falls_and_stays_above_the_threshold() -> None:
    copied = words(6, 60)
    (chunk,) = make(suffix_decoding_min_token_prob=0.3).draft([query([*copied, 9, *copied[:4]], budget=32)])
    assert list(chunk.survival) == sorted(chunk.survival, reverse=True)
    assert 1 >= chunk.survival[0] >= chunk.survival[-1] >= 0.3


def test_hits_on_the_second_and_third_same_request() -> None:
    """Case R2."""
    drafter, prompt, answer = make(), words(7, 40), words(8, 120)
    first, second, third = (replay(drafter, prompt, answer, name=str(i))[0] for i in range(3))
    assert first == 119
    assert second < 25
    assert third < 25


def test_another_tenant_never_hits() -> None:
    """Case Z6: the other tenant has no hits, the same one has."""
    drafter, prompt, answer = make(), words(9, 40), words(10, 120)
    alone = replay(make(), prompt, answer, tenant="b")
    replay(drafter, prompt, answer, name="1", tenant="a")
    assert replay(drafter, prompt, answer, name="2", tenant="b") == alone
    assert replay(drafter, prompt, answer, name="3", tenant="a")[0] < 25


def test_another_tenant_with_the_same_request_id_gets_a_fresh_state() -> None:
    drafter, text = make(), words(11, 30) * 2
    drafter.draft([query(text, tenant="a")]).__next__()
    (chunk,) = drafter.draft([query([*text, 1], seen=len(text), tenant="b")])
    assert (chunk.tokens, chunk.need_from) == ((), 0)


def test_memory_is_bounded_and_the_oldest_answer_goes_first() -> None:
    """Case R4."""
    capacity = 2**19
    drafter = make(suffix_cache_bytes=capacity)
    answers = [words(100 + i, 120) for i in range(40)]
    for i, answer in enumerate(answers):
        replay(drafter, words(i, 4), answer, name=str(i))
        assert drafter.past.num_bytes <= capacity
    assert replay(drafter, words(39, 4), answers[39], name="new")[0] < 25
    assert replay(drafter, words(0, 4), answers[0], name="old")[0] == 119


def test_an_answer_asked_for_in_the_middle_is_stored_from_its_beginning() -> None:
    drafter, prompt, answer = make(), words(16, 40), words(17, 120)
    list(drafter.draft([with_prompt(query([*prompt, *answer]), 40)]))  # as after a lost state
    drafter.close("r")
    assert replay(drafter, prompt, answer)[0] < 25


def test_live_requests_are_bounded() -> None:
    drafter = SuffixDrafter(SuffixConfig(), max_requests=2)
    text = words(12, 20)
    for name in "abc":
        list(drafter.draft([query(text, request_id=name)]))
    chunks = list(drafter.draft([query([*text, 1], seen=20, request_id=name) for name in "abc"]))
    assert [chunk.need_from for chunk in chunks] == [0, None, None]


def test_tree_lays_the_best_chain_first_and_adds_rivals() -> None:
    shared = words(13, 6)
    text = [*shared, 1, 2, 3, 70, *shared, 4, 5, 6, 71, *shared, 4, 5, 6, 72, *shared]
    one = query(text, budget=64)
    (chain,) = make(num_speculative_tokens=64).draft([one])
    (tree,) = make(num_speculative_tokens=64, num_branches=4).draft([one])
    assert tree.tokens[: len(chain.tokens)] == chain.tokens
    assert tree.parents[: len(chain.tokens)] == chain.parents
    assert len(tree.tokens) > len(chain.tokens)
    draft = joined(one, [tree])
    assert len(draft.after([4, 5])) > 0
    assert len(draft.after([1, 2])) > 0


def test_a_second_shorter_request_on_a_used_drafter() -> None:
    """Case B5."""
    drafter, long, short = make(suffix_cache_bytes=0), words(14, 50) * 2, words(15, 10) * 2
    replay(drafter, long, long, name="same")
    assert replay(drafter, short, short, name="same") == replay(make(), short, short, name="same")
