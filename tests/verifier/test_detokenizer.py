"""Detokenizer: pieces join to the text of all tokens, whatever the tokens."""

from __future__ import annotations

import random

import pytest
from transformers import PreTrainedTokenizerFast

from benchmarks.harness.tiny import byte_tokenizer
from protos.sampling_params import SamplingParams
from verifier.detokenizer import Detokenizer

TEXT = "plain, naïve, 日本語, 😀😀 and the end"


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return byte_tokenizer()


def pieces(tokenizer: PreTrainedTokenizerFast, ids: bytes, *, prompt: bytes = b"") -> list[str]:
    detokenizer = Detokenizer(tokenizer, tuple(prompt), SamplingParams())
    return [detokenizer.push(token).text for token in ids] + [detokenizer.flush().text]


def test_characters_come_whole(tokenizer: PreTrainedTokenizerFast) -> None:
    shown = pieces(tokenizer, TEXT.encode())
    assert "".join(shown) == TEXT
    assert not any("\ufffd" in piece for piece in shown)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_never_fail_and_nothing_is_lost(tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
    ids = random.Random(seed).randbytes(200)
    assert len("".join(pieces(tokenizer, ids))) >= 200 // 8


def test_a_prompt_cut_inside_a_character_does_not_leak_into_the_answer(tokenizer: PreTrainedTokenizerFast) -> None:
    cut = "secret 😀".encode()
    assert "secret" not in "".join(pieces(tokenizer, cut[-1:] + b" and more", prompt=cut[:-1]))


def test_an_unfinished_character_shows_at_the_end(tokenizer: PreTrainedTokenizerFast) -> None:
    assert "".join(pieces(tokenizer, "ab😀".encode()[:-1])) == "ab\ufffd"


def test_tokens_without_text_add_nothing(tokenizer: PreTrainedTokenizerFast) -> None:
    detokenizer = Detokenizer(tokenizer, (), SamplingParams())
    shown = "".join(detokenizer.push(token).text for token in [*b"ab", *[257] * 500, *b"cd"])
    assert shown + detokenizer.flush().text == "abcd"
    assert len(detokenizer._window) < 20
