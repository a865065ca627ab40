"""What the parts say to each other: frozen records, tokens as tuples of int."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from protos.sampling_params import SamplingParams
from protos.speculation_counts import SpeculationCounts

Tokens = tuple[int, ...]


class Finish(StrEnum):
    """Why a request ended. `stop`: an end token or a stop string; `length`: max_tokens; the others: no full answer."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculative:
    """Per-request speculation: may switch it off or shorten drafts, never lengthen them beyond the server's limit.

    method: which of a server's drafters guesses; None leaves that to the server.
    """

    enabled: bool = True
    num_speculative_tokens: int | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One sequence to generate. `params.seed` is set and `params.n == 1` by the time a request reaches an engine."""

    request_id: str
    prompt_ids: Tokens
    params: SamplingParams
    tenant: str = ""
    speculative: Speculative = field(default_factory=Speculative)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftQuery:
    """Asks for a draft after `base_len` committed tokens.

    `tail` holds the committed tokens at positions `base_len - len(tail) .. base_len - 1`: those the drafter is not
    known to have seen. The drafter truncates its state to `base_len - len(tail)`, ingests the tail, and drafts at most
    `budget` tokens; there is no commit or rollback message. `params` lets a drafter draw with the target's own noise.
    `prompt_len`: how many of the committed tokens are the prompt's.
    `features`: the target's fused features that came to be known with the tail, in bf16, for a drafter that reads them.
    They belong to positions `max(tail_start - 1, 0) .. base_len - 2`: the target has yet to process the last token.
    `method`: the one of several drafters that the request selected, for one that is made of several.
    """

    request_id: str
    base_len: int
    tail: Tokens
    budget: int
    params: SamplingParams
    tenant: str = ""
    prompt_len: int = 0
    features: NDArray[np.generic] | None = None
    method: str | None = None

    @property
    def tail_start(self) -> int:
        """Position of the first token of the tail: the length the drafter must already hold."""
        return self.base_len - len(self.tail)

    @property
    def announces(self) -> bool:
        """Whether it only says that a request has begun; features of its prompt come later, for who reads them."""
        return self.budget == 0 and self.tail_start == 0 and self.features is None and len(self.tail) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftChunk:
    """Some nodes of one draft, in order. Chunks of a draft join by `Draft.extend`.

    `parents[i]` is the index (in the whole draft) of node `offset + i`'s parent, -1 for the anchor; parents precede
    children. `survival[i]` estimates P(node accepted with all its ancestors), non-increasing downwards.
    `last` closes the answer to a query (also an empty one). `need_from` says: I hold only that many tokens of this
    request, send the tail from there; the chunk is then empty. `error` says how the drafter failed at this query; the
    chunk is then empty too.
    """

    request_id: str
    base_len: int
    offset: int = 0
    tokens: Tokens = ()
    parents: Tokens = ()
    survival: tuple[float, ...] = ()
    source: str = ""
    last: bool = True
    need_from: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """Log-probability of the emitted token under the target's unprocessed distribution, its rank and the best ones."""

    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStats:
    """One request so far, or several joined by `+`.

    `steps`: verifications, those without a draft included. `queue_seconds`: from arrival to a KV slot.
    """

    speculation: SpeculationCounts = field(default_factory=SpeculationCounts)
    steps: int = 0
    cached_prompt_tokens: int = 0
    queue_seconds: float = 0.0

    def __add__(self, other: RequestStats) -> RequestStats:
        return RequestStats(
            speculation=self.speculation + other.speculation,
            steps=self.steps + other.steps,
            cached_prompt_tokens=self.cached_prompt_tokens + other.cached_prompt_tokens,
            queue_seconds=self.queue_seconds + other.queue_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one verification decided for one request.

    `tokens` are the newly committed ones; `sources` names who drafted each, "" where the target drew it unaided. `text`
    is their text so far as it can be shown; text held back for an unfinished character or a possible stop string comes
    with a later verdict. `error` is set with `finish == ERROR`.
    """

    request_id: str
    tokens: Tokens = ()
    sources: tuple[str, ...] = ()
    text: str = ""
    finish: Finish | None = None
    stop_reason: int | str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    stats: RequestStats = field(default_factory=RequestStats)
    error: str | None = None
