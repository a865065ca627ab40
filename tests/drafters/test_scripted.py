"""The scripted drafters honour the contract and say what they were made to say."""

from __future__ import annotations

import pytest

from protos.interfaces import Drafter
from tests.drafters.contract import DrafterContract
from tests.fakes.queries import query
from tests.fakes.scripted import Scripted, adversary, oracle, partial

PROMPT, ANSWER = DrafterContract.prompt, DrafterContract.answer
TABLE = {PROMPT: ANSWER, ANSWER: PROMPT}


class TestOracle(DrafterContract):
    def make_drafter(self) -> Drafter:
        return oracle(TABLE, vocab_size=16)


class TestAdversaryTree(DrafterContract):
    def make_drafter(self) -> Drafter:
        return adversary(TABLE, vocab_size=16, tree=True)


class TestPartial(DrafterContract):
    def make_drafter(self) -> Drafter:
        return partial(TABLE, 2, vocab_size=16)


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("right", [0, 1, 2, 99])
def test_path_that_is_right(right: int, tree: bool) -> None:
    drafter = Scripted(TABLE, vocab_size=16, right=right, tree=tree, source="s")
    (chunk,) = drafter.draft([query(PROMPT + ANSWER[:1], budget=8)])
    node, accepted = -1, 0
    for token in ANSWER[1:]:
        found = [i for i, t in enumerate(chunk.tokens) if t == token and chunk.parents[i] == node]
        if not found:
            break
        node, accepted = found[0], accepted + 1
    assert accepted == min(right, 4 if tree else 8)
    assert len(chunk.tokens) == 8
    assert drafter.texts == {"r": list(PROMPT + ANSWER[:1])}


def test_a_text_that_left_the_script_gets_nothing() -> None:
    (chunk,) = oracle(TABLE, vocab_size=16).draft([query((*PROMPT, 0))])
    assert chunk.tokens == ()
