"""A drafter hears of a request while the target still processes its prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from modeling.target import Target
from protos.messages import DraftChunk, DraftQuery, Speculative, Tokens
from services.transports.local import LocalDrafter
from tests.fakes.requests import request
from tests.fakes.running import run
from verifier.engine import Engine
from verifier.engine_config import EngineConfig

PROMPT = tuple(range(3, 53))


class Silent:
    """Drafts nothing, and keeps all queries."""

    def __init__(self) -> None:
        self.queries: list[DraftQuery] = []

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        self.queries += queries
        yield from (DraftChunk(request_id=query.request_id, base_len=query.base_len) for query in queries)

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        pass


def _engine(target: Target, drafter: Silent) -> Engine:
    config = EngineConfig(num_speculative_tokens=4, max_num_batched_tokens=32, draft_timeout_s=30)
    return Engine(target, config, LocalDrafter(drafter))


def test_a_prompt_is_announced_once_before_it_is_processed(tiny_target: Target) -> None:
    drafter = Silent()
    engine = _engine(tiny_target, drafter)
    engine.add(replace(request("r", max_tokens=4), prompt_ids=PROMPT))
    assert engine.step() == []  # half of the prompt
    assert [(query.announces, query.tail, query.prompt_len) for query in drafter.queries] == [(True, PROMPT, 50)]
    engine.step()
    engine.step()
    assert [query.announces for query in drafter.queries] == [True, False]
    assert drafter.queries[1].tail_start == len(PROMPT)


def test_a_request_without_speculation_is_not_announced(tiny_target: Target) -> None:
    drafter = Silent()
    plain = replace(request("r", max_tokens=4), speculative=Speculative(enabled=False))
    run(_engine(tiny_target, drafter), [plain])
    assert drafter.queries == []
