"""OwnTurns: a model's own prompts, kept as they come, the same after a stop, and none twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness.tiny import START, save_tiny
from drafters.training.prompt_sources import UserTurn
from services import magpie
from services.magpie import OwnTurns, user_head
from services.offline import LLM
from tests.training.conftest import deep_llama

MAX_LEN, LONGEST = 512, 128


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    """Random with broad laws, so that it writes much that is new and at times ends by itself."""
    folder = save_tiny(tmp_path_factory.mktemp("tiny"), deep_llama())
    with LLM(str(folder), dtype="fp32", device="cpu", threads=1, max_model_len=MAX_LEN, max_num_seqs=32) as llm:
        yield llm


@pytest.fixture(autouse=True)
def _small_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(magpie, "AT_ONCE", 32)
    monkeypatch.setattr(magpie, "LONGEST", LONGEST)


def written(path: Path, count: int, llm: LLM) -> list[UserTurn]:
    own = OwnTurns(path, count)
    own.write(llm, max_model_len=MAX_LEN, seen=lambda _: None)
    assert own.missing == 0
    return own.turns


def test_the_head_ends_where_the_user_begins(llm: LLM) -> None:
    assert llm.get_tokenizer().decode(user_head(llm.get_tokenizer())) == f"{START}user\n"


def test_turns_are_different_ended_and_kept(llm: LLM, tmp_path: Path) -> None:
    path = tmp_path / "answers.prompts.jsonl"
    turns = written(path, 8, llm)
    assert len({turn.prompt for turn in turns}) == 8
    assert all(turn.prompt.strip() == turn.prompt != "" for turn in turns)
    assert all(turn.domain == "chat" for turn in turns)
    assert all(len(turn.prompt) < LONGEST for turn in turns)  # a token is a byte
    assert [json.loads(line)["prompt"] for line in path.read_text().splitlines()] == [turn.prompt for turn in turns]


def test_the_first_of_many_are_those_of_few_and_a_stop_changes_nothing(llm: LLM, tmp_path: Path) -> None:
    few, many = tmp_path / "few.jsonl", tmp_path / "many.jsonl"
    turns = written(many, 10, llm)
    assert written(few, 4, llm) == turns[:4]
    whole = few.read_bytes()
    few.write_bytes(whole[: whole.index(b"\n") + 9])  # a stop in the midst of the second line
    assert OwnTurns(few, 10).missing == 9
    assert written(few, 10, llm) == turns
    assert few.read_bytes() == many.read_bytes()
    assert OwnTurns(many, 3).turns == turns[:3]


def test_what_is_known_is_not_written_again(llm: LLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.jsonl"
    turns = written(path, 3, llm)
    others = tmp_path / "others.jsonl"
    first = {"prompt": f"  {turns[0].prompt.upper()} \n", "domain": "chat", "draw": -1}
    others.write_text(json.dumps(first) + "\n")
    assert written(others, 3, llm)[1:] == turns[1:]
    monkeypatch.setattr(magpie, "is_evaluation", lambda prompt: prompt == turns[1].prompt)
    assert turns[1] not in written(tmp_path / "without.jsonl", 3, llm)


def test_a_model_with_nothing_to_say_ends_the_search(llm: LLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(magpie, "is_evaluation", lambda _: True)
    with pytest.raises(RuntimeError, match="wrote 0 different prompts, and 32 further attempts brought no new one"):
        written(tmp_path / "own.jsonl", 1, llm)


def test_a_line_of_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"prompt": "why?"}\n')
    with pytest.raises(ValueError, match=r"own\.jsonl, line 1 is no prompt that a model wrote"):
        OwnTurns(path, 1)
