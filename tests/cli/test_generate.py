"""paradraft generate on a tiny model: what it prints is the answer, and what it says of drafts is true."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Call

SMALL = ["--dtype", "fp32", "--device", "cpu", "--threads", "1", "--max-num-seqs", "1", "--max-model-len", "256"]
ASK = ["--prompt", "abcabcabc", "--raw", "--max-tokens", "30"]


def test_drafts_do_not_change_what_is_printed(paradraft: Call, model: str) -> None:
    with_drafts = paradraft("generate", model, *ASK, *SMALL)
    without = paradraft("generate", model, *ASK, *SMALL, "--speculative-config", "none")
    assert with_drafts.exit_code == without.exit_code == 0
    assert with_drafts.stdout == without.stdout
    assert len(with_drafts.stdout) > 10


def test_a_prompt_comes_through_a_pipe_as_well(paradraft: Call, model: str) -> None:
    piped = paradraft("generate", model, "--raw", "--max-tokens", "30", *SMALL, stdin="abcabcabc")
    assert piped.stdout == paradraft("generate", model, *ASK, *SMALL).stdout


def test_the_chat_template_is_the_default(paradraft: Call, model: str) -> None:
    by_hand = "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    chat = paradraft("generate", model, "-p", "hello", "--system", "s", "--max-tokens", "20", *SMALL)
    raw = paradraft("generate", model, "-p", by_hand, "--raw", "--max-tokens", "20", *SMALL)
    assert chat.stdout == raw.stdout


def test_sampling_options_arrive(paradraft: Call, model: str) -> None:
    def sampled(seed: str) -> str:
        return paradraft("generate", model, *ASK, *SMALL, "--temperature", "1", "--seed", seed).stdout

    assert sampled("1") == sampled("1") != sampled("2")
    whole = paradraft("generate", model, *ASK, *SMALL).stdout
    stop = whole[4:6]
    cut = paradraft("generate", model, *ASK, *SMALL, "--stop", stop).stdout
    assert cut == whole[: whole.index(stop)] + "\n"


def test_show_drafts_marks_the_same_text_and_sums_up(paradraft: Call, model: str) -> None:
    plain = paradraft("generate", model, *ASK, *SMALL).stdout.rstrip("\n")
    shown = paradraft("generate", model, *ASK, *SMALL, "--show-drafts").stdout
    answer, _, summary = shown.partition("\n\n")
    assert re.sub("[⟦⟧]", "", answer) == plain
    assert answer.count("⟦") == answer.count("⟧") > 0
    figures = re.search(r"(\d+) tokens in .* tok/s, accepted length ([\d.]+), (\d+) of (\d+) drafted tokens", summary)
    guessed = re.search(r"suffix  guessed (\d+), the model drew (\d+) unaided", summary)
    assert figures
    assert guessed
    assert int(figures[1]) == int(guessed[1]) + int(guessed[2]) == 30
    assert int(figures[3]) == int(guessed[1]) <= int(figures[4])
    assert float(figures[2]) > 1


def test_a_prompt_too_long_is_one_line(paradraft: Call, model: str) -> None:
    result = paradraft("generate", model, "-p", "x" * 300, "--raw", *SMALL)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "256" in result.stderr


@pytest.mark.parametrize("config", ['{"model": "/nowhere"}', '{"method": "draft_model"}'])
def test_a_drafter_that_cannot_be_is_one_line(paradraft: Call, model: str, config: str) -> None:
    result = paradraft("generate", model, *ASK, *SMALL, "--speculative-config", config)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
