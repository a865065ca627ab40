"""Answers: what a file holds arrives, what it should not hold is named, and no prompt is on both sides."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from drafters.training.answers import Answer, Example, answer_line, frequent_tokens, read_answers, split_answers

ANSWERS = [Answer(prompt=f"question {i}", answer_ids=(i, 1, 2, 3), domain="d", temperature=0.7) for i in range(300)]


def encode(prompt: str) -> tuple[int, ...]:
    return tuple(prompt.encode())


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    path, text = tmp_path / name, "".join(map(answer_line, ANSWERS))
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    assert read_answers(path) == ANSWERS


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1]",
        '{"prompt": "p"}',
        '{"prompt": 3, "answer_ids": []}',
        '{"prompt": "p", "answer_ids": [1, "2"]}',
        '{"prompt": "p", "answer_ids": [1, 2], "domain": null}',
        '{"prompt": "\\ud800", "answer_ids": [1, 2]}',
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(answer_line(ANSWERS[0]) + line + "\n")
    with pytest.raises(ValueError, match=r"answers\.jsonl, line 2 is no answer"):
        read_answers(path)


def test_a_file_that_is_not_there_or_broken_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(b"x" * 1000)[:20])
    flipped, packed = tmp_path / "flipped.gz", bytearray(gzip.compress(bytes(range(256)) * 9))
    packed[12] ^= 0xFF
    flipped.write_bytes(packed)
    for path in (tmp_path / "none.jsonl", broken, flipped):
        with pytest.raises(ValueError, match=path.name):
            read_answers(path)


def test_no_prompt_is_on_both_sides() -> None:
    twice = [*ANSWERS, *(Answer(prompt=each.prompt, answer_ids=(9, 8, 7)) for each in ANSWERS)]
    split = split_answers(twice, encode, held_out=0.2, max_length=100)
    sides = [{each.tokens[: each.prompt_len] for each in side} for side in (split.train, split.held_out)]
    assert sides[0] & sides[1] == set()
    assert len(split.train) + len(split.held_out) == 600
    assert 60 < len(split.held_out) <= 128


def test_the_same_prompts_are_held_out_whatever_else_is_there() -> None:
    whole = split_answers(ANSWERS, encode, held_out=0.1, max_length=100)
    part = split_answers(ANSWERS[:150], encode, held_out=0.1, max_length=100)
    assert set(part.held_out) <= set(whole.held_out)


def test_examples_are_cut_and_too_short_ones_left_out() -> None:
    split = split_answers(ANSWERS, encode, held_out=0.5, max_length=12)
    assert {len(each.tokens) for each in (*split.train, *split.held_out)} == {12}
    assert all(each.tokens[each.prompt_len :] == (int(bytes(each.tokens[9:10])), 1) for each in split.train)
    with pytest.raises(ValueError, match="0 answers to train on"):
        split_answers(ANSWERS, encode, held_out=0.1, max_length=4)


def test_only_answers_make_the_draft_vocabulary() -> None:
    examples = [Example(tokens=(7, 7, 7, 7, 5, 5, 3, 9), prompt_len=4, domain="")]
    assert frequent_tokens(examples, 2) == (3, 5)
    assert frequent_tokens(examples, 10) == (3, 5, 9)
