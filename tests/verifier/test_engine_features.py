"""Fused features: each query brings those of the positions that came to be known with its tail, whatever happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from modeling.target import Target
from modeling.work import Work
from protos.messages import DraftChunk, DraftQuery, Tokens
from services.transports.local import LocalDrafter
from tests.fakes.requests import request
from tests.fakes.running import run
from tests.fakes.scripted import Scripted, partial
from verifier.engine import Engine
from verifier.engine_config import EngineConfig

LAYERS = (0, 1)


class Joined:
    """The taps side by side."""

    layers = LAYERS

    def __init__(self, target: Target) -> None:
        self.width = len(LAYERS) * target.config.hidden_size

    def __call__(self, taps: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat(tuple(taps), dim=-1)


class Reader:
    """Drafts as `inner` does, and keeps what it was told of each request: its text and the features, by position."""

    def __init__(self, inner: Scripted, *, forgets: bool = False) -> None:
        self._inner = inner
        self._forgets = forgets
        self.texts: dict[str, list[int]] = {}
        self.features: dict[str, list[np.ndarray]] = {}

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        for query in queries:
            if query.announces:
                yield DraftChunk(request_id=query.request_id, base_len=query.base_len, need_from=0)
                continue
            text, rows = self.texts.setdefault(query.request_id, []), self.features.setdefault(query.request_id, [])
            if len(text) < query.tail_start:
                yield DraftChunk(request_id=query.request_id, base_len=query.base_len, need_from=len(text))
                continue
            text[query.tail_start :] = query.tail
            assert query.features is not None
            rows[max(query.tail_start - 1, 0) :] = list(query.features)
            assert len(rows) == query.base_len - 1
            if self._forgets:
                self._forgets = False
                del text[4:], rows[3:]
            yield from self._inner.draft([query])

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        self._inner.close(request_id, tail_start=tail_start, tail=tail)


def _expected(target: Target, tokens: Sequence[int]) -> np.ndarray:
    """Features of all tokens, from one forward of their own."""
    works = [Work(slot=3, start=0, tokens=tuple(tokens), num_logits=0)]
    joined = torch.cat(target.runner.forward(works, taps=LAYERS).taps, dim=-1)
    return joined.to(torch.bfloat16).float().numpy()


def _read(reader: Reader, request_id: str) -> np.ndarray:
    words = np.stack(reader.features[request_id]).view(np.uint16).copy()
    return torch.from_numpy(words).view(torch.bfloat16).float().numpy()


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("forgets", [False, True])
def test_a_drafter_gets_the_features_of_all_it_was_told(tiny_target: Target, *, tree: bool, forgets: bool) -> None:
    """Chains and trees that are partly accepted, a prefix copied from another slot, a drafter that lost its state."""
    plain = Engine(tiny_target, EngineConfig(max_num_batched_tokens=64))
    answer: Tokens = tuple(run(plain, [request(max_tokens=40)])["r"].tokens)
    first = request("first", max_tokens=40)
    again = replace(request("again", max_tokens=20), prompt_ids=first.prompt_ids + answer[:5])
    known = {first.prompt_ids: answer, again.prompt_ids: answer[5:]}
    reader = Reader(partial(known, 2, vocab_size=tiny_target.vocab_size, tree=tree), forgets=forgets)
    config = EngineConfig(num_speculative_tokens=7, max_num_batched_tokens=64, draft_timeout_s=30)
    engine = Engine(tiny_target, config, LocalDrafter(reader), Joined(tiny_target))
    for each in (first, again):
        outcome = run(engine, [each])[each.request_id]
        expected = _expected(tiny_target, reader.texts[each.request_id])[: len(reader.features[each.request_id])]
        np.testing.assert_allclose(_read(reader, each.request_id), expected, rtol=0.02, atol=0.02)
    assert outcome.stats.cached_prompt_tokens > 0
    assert outcome.stats.speculation.accepted > 0
