"""LLM: what it cannot be made with or asked is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from paradraft import LLM, SamplingParams


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_num_seq": 4}, "max_num_seqs"),
        ({"dtype": "fp7"}, "fp7"),
        ({"device": "tpu"}, "tpu"),
        ({"speculative_config": {"method": "sufix"}}, "sufix"),
        ({"speculative_config": {"method": "suffix", "num_speculative_token": 3}}, "num_speculative_tokens"),
        ({"speculative_config": {"model": "/nowhere"}}, "/nowhere"),
        ({"speculative_config": {"method": "suffix", "transport": "grpc"}}, "transport grpc"),
        ({"speculative_config": {"method": "suffix", "socket": "tcp"}}, "leave transport and socket out"),
        ({"speculative_config": {"model": "m", "draft_threads": 2}}, "draft_threads is 2, but in one process"),
    ],
    ids=str,
)
def test_a_bad_option_is_refused_by_name(model: str, options: dict[str, object], named: str) -> None:
    """Case M4: a drafter that cannot be is no reason to go on without."""
    with pytest.raises(ValueError, match=named):
        LLM(model, threads=1, **options)  # type: ignore[arg-type]


def test_a_bad_option_is_said_in_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"^speculative_config: unknown key 'num_tokens'[^\n]*$") as caught:
        LLM(speculative_config={"method": "suffix", "num_tokens": 3})
    assert "pydantic" not in str(caught.value)


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no config\.json"):
        LLM(str(tmp_path))


@pytest.fixture(scope="module")
def llm(model: str) -> Iterator[LLM]:
    with LLM(model, threads=1) as llm:
        yield llm


@pytest.mark.parametrize(
    "prompt", [1, None, b"hi", [b"hi"], {"text": "x"}, {"prompt_token_ids": "x"}, ["x", 1], [True], [[]]], ids=str
)
def test_what_is_no_prompt_is_refused(llm: LLM, prompt: object) -> None:
    with pytest.raises(ValueError, match="is no prompt"):
        llm.generate(prompt, SamplingParams(), use_tqdm=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("params", [{"temperature": 0}, [{"temperature": 0}], ["greedy"]])
def test_what_is_no_sampling_params_is_refused(llm: LLM, params: object) -> None:
    with pytest.raises(ValueError, match="is no sampling_params"):
        llm.generate("hi", params, use_tqdm=False)  # type: ignore[arg-type]
