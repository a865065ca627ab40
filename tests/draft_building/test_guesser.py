"""Guesser: the author's draft is stored behind the prompt, its engine gets none, and a failure is not passed over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from protos.interfaces import Drafter
from protos.messages import DraftChunk, DraftQuery, Tokens
from services.draft_building.guesser import Guesser, Guesses
from tests.fakes.draft_files import PLAIN
from tests.fakes.queries import query, with_prompt
from tests.fakes.scripted_draft_files import ScriptedDraftFiles

END = 99
GUESSES = Guesses(namespace=PLAIN, pooling="none", own=None, prefix=None, max_paths=8, eos_ids=frozenset({END}))
PROMPT = [1, 2, 3]


class Author:
    """Drafts the same tree behind any text; nothing where it may have no tokens."""

    def __init__(self, tokens: Tokens, parents: Tokens, survival: tuple[float, ...]) -> None:
        self._tree = {"tokens": tokens, "parents": parents, "survival": survival}
        self.closed: list[str] = []

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        for each in queries:
            tree = self._tree if each.budget else {}
            yield DraftChunk(request_id=each.request_id, base_len=each.base_len, **tree)  # type: ignore[arg-type]

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        self.closed.append(request_id)


class Broken:
    """Fails at everything."""

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        raise OSError("no weights")

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        pass


TREE = Author(tokens=(5, 6, 7, 8), parents=(-1, 0, -1, 2), survival=(0.5, 0.3, 0.9, 0.8))


def stored(author: Drafter, guesses: Guesses = GUESSES) -> tuple[ScriptedDraftFiles, Guesser]:
    """After the prompt was announced and the target has written a token."""
    files = ScriptedDraftFiles()
    guesser = Guesser(author, files, guesses)
    for asked in (query(PROMPT, budget=0), query([*PROMPT, 4], seen=3)):
        (chunk,) = guesser.draft([with_prompt(asked, len(PROMPT))])
        assert (chunk.tokens, chunk.last, chunk.base_len) == ((), True, asked.base_len)
    return files, guesser


def test_each_way_to_a_leaf_is_stored_behind_what_the_target_wrote() -> None:
    files, guesser = stored(TREE)
    assert [each.tokens for each in files.added] == [(4, 7, 8), (4, 5, 6)]  # the likelier first
    assert {(each.namespace, each.prefix.tokens, each.prefix.length) for each in files.added} == {(PLAIN, (1, 2, 3), 3)}
    assert guesser.take_done() == ["r"]
    assert guesser.take_done() == []


def test_only_so_many_ways_are_stored() -> None:
    files, _ = stored(TREE, replace(GUESSES, max_paths=1))
    assert [each.tokens for each in files.added] == [(4, 7, 8)]


def test_nothing_is_stored_beyond_the_end_of_a_text() -> None:
    files, _ = stored(Author(tokens=(5, END, 6, 7), parents=(-1, 0, 1, 1), survival=(0.9, 0.9, 0.5, 0.4)))
    assert [each.tokens for each in files.added] == [(4, 5, END)]


def test_an_author_without_a_draft_leaves_nothing() -> None:
    files, guesser = stored(Author(tokens=(), parents=(), survival=()))
    assert files.added == []
    assert guesser.take_done() == []


def test_an_author_that_fails_is_heard_of() -> None:
    files = ScriptedDraftFiles()
    guesser = Guesser(Broken(), files, GUESSES)
    list(guesser.draft([with_prompt(query([*PROMPT, 4]), len(PROMPT))]))
    with pytest.raises(RuntimeError, match="the drafter failed: OSError: no weights"):
        guesser.take_done()


def test_the_author_is_told_of_ends() -> None:
    author = Author(tokens=(5,), parents=(-1,), survival=(1.0,))
    _, guesser = stored(author)
    guesser.close("r", tail_start=4, tail=(9,))
    assert author.closed == ["r"]
