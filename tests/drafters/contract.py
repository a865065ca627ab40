"""DrafterContract: what every drafter owes, over every transport. A test class inherits it and gives `make_drafter`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protos.draft import Draft
from protos.interfaces import AsyncDrafter, Drafter
from protos.messages import DraftChunk, DraftQuery, Tokens
from services.transports.grpc_client import GrpcDrafter
from services.transports.grpc_server import DraftServer
from services.transports.local import LocalDrafter
from tests.fakes.queries import query

WAIT_S = 30


class DrafterContract:
    """`prompt` and `answer` must make the drafter propose something somewhere in the answer."""

    prompt: Tokens = (5, 6, 7, 8, 9, 5, 6, 7)
    answer: Tokens = (8, 9, 5, 6, 7, 8, 9, 5, 6, 7, 8, 9)

    def make_drafter(self) -> Drafter:
        raise NotImplementedError

    @pytest.fixture(params=["local", "grpc"])
    def drafter(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AsyncDrafter]:
        if request.param == "local":
            local = LocalDrafter(self.make_drafter())
            yield local
            local.shutdown()
            return
        server = DraftServer(self.make_drafter(), f"unix:{tmp_path}/drafter")
        server.start()
        client = GrpcDrafter(server.address, stall_s=WAIT_S)
        assert client.wait_until_up(WAIT_S)
        yield client
        client.shutdown()
        server.stop()

    def ask(self, drafter: AsyncDrafter, *queries: DraftQuery) -> dict[str, list[DraftChunk]]:
        """All answers by request; each must have come, in one piece that a Draft takes."""
        drafter.send(queries)
        answers: dict[str, list[DraftChunk]] = {query.request_id: [] for query in queries}
        for chunk in drafter.collect(time.monotonic() + WAIT_S):
            answers[chunk.request_id].append(chunk)
        for one in queries:
            chunks = answers[one.request_id]
            assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
            assert {chunk.base_len for chunk in chunks} == {one.base_len}
            draft = joined(one, chunks)
            assert len(draft) == sum(len(chunk.tokens) for chunk in chunks) <= one.budget
        return answers

    def ask_one(self, drafter: AsyncDrafter, one: DraftQuery) -> DraftChunk:
        """The answer, which must be one chunk."""
        (chunk,) = self.ask(drafter, one)[one.request_id]
        return chunk

    def generate(self, drafter: AsyncDrafter, *, budget: int = 4, request_id: str = "r") -> list[DraftChunk]:
        """All drafts along the answer, one token committed at a time."""
        text = self.prompt + self.answer
        drafts, seen = [], 0
        for length in range(len(self.prompt), len(text)):
            one = query(text[:length], seen=seen, budget=budget, request_id=request_id)
            drafts.append(self.ask_one(drafter, one))
            seen = length
        return drafts

    def test_proposes_within_the_budget(self, drafter: AsyncDrafter) -> None:
        drafts = self.generate(drafter)
        assert any(chunk.tokens for chunk in drafts)
        assert all(chunk.source for chunk in drafts if chunk.tokens)
        assert all(chunk.need_from is None for chunk in drafts)

    def test_budget_that_changes(self, drafter: AsyncDrafter) -> None:
        """Cases L2 and L5."""
        text, seen = self.prompt + self.answer, 0
        for step, budget in enumerate((7, 3, 1, 0, 5)):
            length = len(self.prompt) + step
            chunk = self.ask_one(drafter, query(text[:length], seen=seen, budget=budget))
            assert len(chunk.tokens) <= budget
            assert chunk.need_from is None
            seen = length

    def test_same_query_same_answer(self, drafter: AsyncDrafter) -> None:
        text, seen = self.prompt + self.answer, 0
        for length in range(len(self.prompt), len(text), 2):
            one = query(text[:length], seen=seen)
            assert self.ask_one(drafter, one) == self.ask_one(drafter, one)
            seen = length

    def test_unknown_request_asks_for_its_text(self, drafter: AsyncDrafter) -> None:
        text = self.prompt + self.answer
        chunk = self.ask_one(drafter, query(text, seen=len(self.prompt)))
        assert (chunk.tokens, chunk.need_from, chunk.last) == ((), 0, True)
        assert self.ask_one(drafter, query(text)).need_from is None

    def test_gap_asks_for_what_is_missing(self, drafter: AsyncDrafter) -> None:
        text = self.prompt + self.answer
        self.ask_one(drafter, query(self.prompt))
        gap = self.ask_one(drafter, query(text, seen=len(self.prompt) + 2))
        assert gap.tokens == ()
        assert gap.need_from is not None
        assert gap.need_from <= len(self.prompt)
        assert self.ask_one(drafter, query(text, seen=gap.need_from)).need_from is None

    def test_rollback_to_a_shorter_text(self, drafter: AsyncDrafter) -> None:
        straight = self.generate(drafter, request_id="straight")
        text = self.prompt + self.answer
        wrong = (*text[: len(self.prompt) + 1], 3, 1, 2)
        self.ask_one(drafter, query(self.prompt, request_id="bent", budget=4))
        self.ask_one(drafter, query(wrong, seen=len(self.prompt), request_id="bent", budget=4))
        back = query(text[: len(self.prompt) + 1], seen=len(self.prompt), request_id="bent", budget=4)
        assert self.ask_one(drafter, back).tokens == straight[1].tokens

    def test_reused_id_starts_afresh(self, drafter: AsyncDrafter) -> None:
        """Case B5."""
        first = self.generate(drafter)
        drafter.close("r")
        short = query(self.prompt[:3], budget=4)
        fresh = self.ask_one(drafter, query(self.prompt[:3], budget=4, request_id="other"))
        assert self.ask_one(drafter, short).tokens == fresh.tokens
        drafter.close("r")
        again = self.generate(drafter)
        assert [chunk.need_from for chunk in again] == [None] * len(first)

    def test_close_of_an_unknown_request(self, drafter: AsyncDrafter) -> None:
        drafter.close("nobody")
        assert self.ask_one(drafter, query(self.prompt)).need_from is None

    def test_close_that_tells_the_ending(self, drafter: AsyncDrafter) -> None:
        """Whether it builds on what is held, repeats some of it, or builds on more; and nothing of it is left after."""
        text = self.prompt + self.answer
        for start in (len(text) - 1, len(self.prompt) + 1, len(text) + 5):
            self.generate(drafter)
            drafter.close("r", tail_start=start, tail=(*text[start:], 3))
            assert self.ask_one(drafter, query(text, seen=len(self.prompt))).need_from == 0
        drafter.close("nobody", tail_start=2, tail=text)
        assert all(chunk.need_from is None for chunk in self.generate(drafter))

    def test_requests_do_not_mix(self, drafter: AsyncDrafter) -> None:
        texts = {"a": self.prompt + self.answer, "b": self.prompt, "c": self.answer}
        alone = {name: self.ask_one(drafter, query(text, request_id=f"{name}1")) for name, text in texts.items()}
        together = self.ask(drafter, *(query(text, request_id=f"{name}2") for name, text in texts.items()))
        for name, chunk in alone.items():
            assert together[f"{name}2"][-1].tokens == chunk.tokens

    def test_no_queries(self, drafter: AsyncDrafter) -> None:
        assert self.ask(drafter) == {}
        assert drafter.status().up


def joined(one: DraftQuery, chunks: list[DraftChunk]) -> Draft:
    """The draft that the chunks make."""
    draft = Draft(request_id=one.request_id, base_len=one.base_len)
    for chunk in chunks:
        draft = draft.extend(chunk)
    return draft
