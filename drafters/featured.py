"""FeaturedDrafter: what the drafters that read the target's features have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from drafters.chains import chain, no_draft, waves
from drafters.model_config import ModelConfig
from drafters.slots import Held, SlotTable
from protos.arrays import BFLOAT16
from protos.messages import DraftChunk, DraftQuery, Tokens

INGEST_ROWS = 1024

Features = NDArray[np.generic]


class Featured(Held, Protocol):
    """A request's state. unread: features that the slot has yet to take up."""

    def synchronise(self, tail_start: int, tail: Tokens, features: Features) -> None:
        """Truncates the text to `tail_start`, appends the tail, and notes its features (see DraftQuery)."""
        ...


State = TypeVar("State", bound=Featured)
Answering = Sequence[tuple[DraftQuery, State]]


class FeaturedDrafter(ABC, Generic[State]):
    """A Drafter with one slot a request. Of long tails, one call reads INGEST_ROWS features, first come first served;
    what the last draft and the target's token added to a text does not count. More requests than slots: see SlotTable.
    """

    source: ClassVar[str]

    def __init__(self, table: SlotTable[State], config: ModelConfig, *, width: int) -> None:
        """width: numbers in a feature."""
        self._table = table
        self._feature_width = width
        self._longest = config.num_speculative_tokens
        self._min_survival = config.min_survival

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        asking = {query.request_id for query in queries}
        for wave in waves(queries):
            met: list[tuple[DraftQuery, State]] = []
            for query in wave:
                state = self._synchronised(query, asking)
                if isinstance(state, DraftChunk):
                    yield state
                else:
                    met.append((query, state))
            yield from self._answers(met)

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:  # noqa: ARG002
        self._table.release(request_id)

    @abstractmethod
    def _read(self, states: Sequence[State]) -> None:
        """Moves features of long tails into the slots, as many as one call may."""

    @abstractmethod
    def _is_ready(self, state: State) -> bool:
        """Whether a draft can follow at once."""

    @abstractmethod
    def _drafts(self, drafting: Answering[State]) -> list[DraftChunk]:
        """The drafts, for states that are ready, in order."""

    def _limit(self, query: DraftQuery) -> int:
        return min(query.budget, self._longest)

    def _chains(self, queries: Sequence[DraftQuery], tokens: torch.Tensor, chances: torch.Tensor) -> list[DraftChunk]:
        """Chains of tokens [b, m], whose chances [b, m] are each given that those before it are accepted."""
        limits = torch.tensor([self._limit(query) for query in queries], device=tokens.device)
        survival = chances.clamp(max=1).cumprod(dim=1)
        lengths = (survival >= self._min_survival).sum(dim=1).clamp(max=limits)
        rows = zip(queries, lengths.tolist(), tokens.tolist(), survival.tolist(), strict=True)
        return [
            chain(query, drawn[:length], survived[:length], source=self.source)
            for query, length, drawn, survived in rows
        ]

    def _synchronised(self, query: DraftQuery, asking: Collection[str]) -> State | DraftChunk:
        """The request's state, brought to the query's text; the answer where that cannot be."""
        if query.announces:
            return no_draft(query, need_from=0)
        state = self._table.find(query, keep=asking)
        if state is None or len(state.text) < query.tail_start:
            return no_draft(query, need_from=self._table.need_from(query, state, keep=asking))
        try:
            features = check_features(query, self._feature_width)
        except ValueError as error:
            return no_draft(query, error=str(error))
        state.synchronise(query.tail_start, query.tail, features)
        if len(state.text) < query.base_len:
            return no_draft(query, need_from=len(state.text))
        return state

    @torch.inference_mode()
    def _answers(self, met: Answering[State]) -> list[DraftChunk]:
        self._read([state for _, state in met])
        drafting = [each for each in met if self._limit(each[0]) > 0 and self._is_ready(each[1])]
        drafts = {chunk.request_id: chunk for chunk in self._drafts(drafting)} if drafting else {}
        return [drafts.get(query.request_id) or no_draft(query) for query, _ in met]


def check_features(query: DraftQuery, width: int) -> Features:
    """The features of a query; ValueError where they are not those of its tail."""
    wanted = (max(len(query.tail) - (query.tail_start == 0), 0), width)
    features = np.empty((0, width), BFLOAT16) if query.features is None else query.features
    if features.shape != wanted or features.dtype != BFLOAT16:
        raise ValueError(
            f"a tail of {len(query.tail)} tokens from position {query.tail_start} came with features of shape "
            f"{features.shape} in {features.dtype.names or features.dtype}; this drafter needs {wanted} in bfloat16"
        )
    return features


def joined(features: Sequence[Features]) -> torch.Tensor:
    """Wire features [n, d] of several states, one after the other, as a bf16 tensor on the CPU."""
    return torch.from_numpy(np.concatenate(features).view(np.uint16)).view(torch.bfloat16)
