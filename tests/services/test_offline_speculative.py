"""`speculative` of `LLM.generate`, `chat` and `stream`: who guesses, and how far; never another text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from paradraft import LLM, SamplingParams
from services.outputs import CompletionOutput

PROMPTS = ["abcabcabc", "to be or not to be", "\n\n", "hello"]
PARAMS = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
SIZE: dict[str, Any] = {"dtype": "fp32", "device": "cpu", "threads": 1, "max_num_seqs": 4, "max_model_len": 512}


@pytest.fixture(scope="module")
def llm(model: str) -> Iterator[LLM]:
    """Two drafters; the model drafts for itself, so it is always right."""
    drafters = [{"method": "suffix"}, {"method": "draft_model", "model": model, "num_speculative_tokens": 4}]
    with LLM(model, speculative_config={"method": "mixed", "drafters": drafters}, **SIZE) as llm:
        yield llm


@pytest.fixture(scope="module")
def plain(model: str) -> Iterator[LLM]:
    with LLM(model, **SIZE) as llm:
        yield llm


def answers(llm: LLM, speculative: Any = None, params: SamplingParams = PARAMS) -> list[CompletionOutput]:
    outputs = llm.generate(PROMPTS, params, speculative=speculative, use_tqdm=False)
    return [answer for output in outputs for answer in output.outputs]


def sources(answer: CompletionOutput) -> set[str]:
    return set(answer.sources) - {""}


def test_one_for_all_prompts(llm: LLM, plain: LLM) -> None:
    expected = [answer.token_ids for answer in answers(plain)]
    for method in ("suffix", "draft_model"):
        found = answers(llm, {"method": method})
        assert [answer.token_ids for answer in found] == expected
        assert set().union(*map(sources, found)) == {method}


def test_one_for_each_prompt(llm: LLM, plain: LLM) -> None:
    each = [{"method": "suffix"}, {"method": "draft_model"}, {"enabled": False}, None]
    found = answers(llm, each)
    assert [answer.token_ids for answer in found] == [answer.token_ids for answer in answers(plain)]
    assert [sources(answer) for answer in found[:3]] == [{"suffix"}, {"draft_model"}, set()]
    assert [bool(answer.stats.speculation.drafted) for answer in found] == [True, True, False, True]


def test_all_answers_to_a_prompt_have_its_own(llm: LLM) -> None:
    several = SamplingParams(n=2, seed=5, max_tokens=8, ignore_eos=True)
    found = answers(llm, [{"enabled": False}, None, {"enabled": False}, {"method": "draft_model"}], several)
    drafted = [answer.stats.speculation.drafted > 0 for answer in found]
    assert drafted == [False, False, True, True, False, False, True, True]


def test_drafts_are_shorter_where_that_is_asked(llm: LLM) -> None:
    for asked, longest in ((1, 1), (2, 2), (4, 4)):
        for answer in answers(llm, {"method": "draft_model", "num_speculative_tokens": asked}):
            assert len(answer.stats.speculation.accepted_per_pos) == longest


def test_chat_and_stream_take_it_too(llm: LLM) -> None:
    chats = [[{"role": "user", "content": prompt}] for prompt in PROMPTS[:2]]
    off, on = llm.chat(chats, PARAMS, speculative=[{"enabled": False}, {"method": "draft_model"}], use_tqdm=False)
    assert [sources(off.outputs[0]), sources(on.outputs[0])] == [set(), {"draft_model"}]
    for speculative, expected in (({"enabled": False}, {""}), ({"method": "draft_model"}, {"", "draft_model"})):
        verdicts = llm.stream("hello", PARAMS, speculative=speculative)
        assert {source for verdict in verdicts for source in verdict.sources} == expected


@pytest.mark.parametrize(
    ("speculative", "message"),
    [
        ({"method": "dspark"}, "\"dspark\", no drafter here; use 'suffix' or 'draft_model', or leave it out"),
        ([None, None, None, {"method": "mixed"}], "\"mixed\", no drafter here; use 'suffix' or 'draft_model'"),
        ({"methods": "suffix"}, 'unknown field "speculative.methods"'),
        ({"enabled": 0}, "speculative.enabled is 0; input should be a valid boolean"),
        ({"num_speculative_tokens": 0}, "speculative.num_speculative_tokens is 0; input should be greater than or"),
        (
            {"num_speculative_tokens": 17},
            "speculative.num_speculative_tokens is 17, but drafts have at most 16 here",
        ),
        (
            {"method": "draft_model", "num_speculative_tokens": 5},
            "is 5, but drafts of draft_model have at most 4 here; ask for no more",
        ),
        ({"method": b"suffix"}, "speculative.method is \"b'suffix'\"; input should be a valid string"),
        ("suffix", 'speculative is "suffix"; it must be an object'),
        ([{}, {}], "2 speculative for 4 prompts; give one, or one for each prompt"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_anything_runs(llm: LLM, speculative: object, message: str) -> None:
    before = llm.stats().generation_tokens
    with pytest.raises(ValueError, match="speculative") as caught:
        answers(llm, speculative)
    assert message in str(caught.value)
    assert llm.stats().generation_tokens == before


def test_a_method_where_nothing_drafts(plain: LLM) -> None:
    with pytest.raises(ValueError, match=r'method is "suffix", no drafter here; there is none; leave it out'):
        answers(plain, {"method": "suffix"})


def test_a_length_where_nothing_drafts(plain: LLM) -> None:
    with pytest.raises(ValueError, match="num_speculative_tokens is 3, but nothing drafts here; leave it out"):
        answers(plain, {"num_speculative_tokens": 3})
