"""Questions: features of long texts go to the drafter a portion a step, and a round never outgrows a frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from modeling.target import Target
from protos.codec import MAX_BODY_BYTES
from protos.messages import DraftChunk, DraftQuery, Tokens
from services.transports.local import LocalDrafter
from tests.fakes.requests import request
from tests.fakes.running import run
from tests.fakes.scripted import Scripted, oracle
from tests.verifier.test_engine_features import Joined
from verifier import questions
from verifier.engine import Engine
from verifier.engine_config import EngineConfig

ROWS = 5


class Listening:
    """Drafts as `inner` does, and keeps each round of queries but those that announce."""

    def __init__(self, inner: Scripted) -> None:
        self._inner = inner
        self.rounds: list[list[DraftQuery]] = []

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        for query in queries:
            if query.announces:
                yield DraftChunk(request_id=query.request_id, base_len=query.base_len, need_from=0)
        asked = [query for query in queries if not query.announces]
        self.rounds.append(asked)
        yield from self._inner.draft(asked)

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        self._inner.close(request_id, tail_start=tail_start, tail=tail)


def _answers(target: Target, prompts: dict[str, Tokens]) -> dict[str, Tokens]:
    plain = Engine(target, EngineConfig(max_num_batched_tokens=64))
    asked = [replace(request(name, max_tokens=24), prompt_ids=prompt) for name, prompt in prompts.items()]
    return {name: tuple(outcome.tokens) for name, outcome in run(plain, asked).items()}


def test_long_texts_reach_the_drafter_in_portions(tiny_target: Target) -> None:
    """Case of a drafter that starts anew while long texts run: all of them at once would be no frame."""
    prompts: dict[str, Tokens] = {"a": tuple(range(3, 15)), "b": tuple(range(20, 32))}
    answers = _answers(tiny_target, prompts)
    joined = Joined(tiny_target)
    listening = Listening(oracle({prompts[name]: answers[name] for name in prompts}, vocab_size=tiny_target.vocab_size))
    config = EngineConfig(num_speculative_tokens=4, max_num_batched_tokens=64, draft_timeout_s=30)
    engine = Engine(tiny_target, config, LocalDrafter(listening), joined)
    engine._questions = questions.Questions(engine._features, limit=4, portion_bytes=ROWS * 2 * joined.width)
    asked = [replace(request(name, max_tokens=24), prompt_ids=prompt) for name, prompt in prompts.items()]
    outcomes = run(engine, asked)
    assert {name: tuple(outcome.tokens) for name, outcome in outcomes.items()} == answers
    sent = [sum(len(query.features) for query in queries) for queries in listening.rounds]
    assert max(sent) == ROWS
    parts = [query for queries in listening.rounds for query in queries if query.request_id == "a"]
    assert [(query.tail_start, query.base_len, query.budget) for query in parts[:3]] == [
        (0, 6, 0),
        (6, 11, 0),
        (11, 15, 4),
    ]
    assert all(outcome.stats.speculation.accepted > 0 for outcome in outcomes.values())
    assert engine.stats().unanswered_draft_queries == 0


def test_a_portion_leaves_room_in_a_frame() -> None:
    assert questions.PORTION_BYTES <= MAX_BODY_BYTES // 2
