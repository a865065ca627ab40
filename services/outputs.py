"""RequestOutput, CompletionOutput, Logprob: what offline generation returns. Names and meanings are vLLM's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protos.messages import Request, RequestStats, TokenLogprob, Tokens, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Logprob:
    """Log-probability of a token under the target's unprocessed distribution; rank 1 is the likeliest."""

    logprob: float
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOutput:
    """One answer. `seed` makes it again, with or without speculation; `stats` says what its drafts achieved.

    `token_ids` holds every token drawn, an end token included; `text` ends before a stop string. `sources` names who
    guessed each token, "" where the target drew it unaided. `logprobs[i]` has the emitted token and the alternatives.
    """

    index: int
    text: str
    token_ids: Tokens
    sources: tuple[str, ...]
    finish_reason: str
    stop_reason: int | str | None
    seed: int
    stats: RequestStats
    logprobs: tuple[dict[int, Logprob], ...] | None = None

    @property
    def cumulative_logprob(self) -> float | None:
        """Log-probability of the whole answer, where logprobs were asked for."""
        if self.logprobs is None:
            return None
        return sum(step[token].logprob for step, token in zip(self.logprobs, self.token_ids, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """One prompt with its `n` answers, in order. `prompt` is None where token ids were given."""

    request_id: str
    prompt: str | None
    prompt_token_ids: Tokens
    outputs: tuple[CompletionOutput, ...]
    finished: bool = True


def completion(index: int, *, request: Request, verdicts: Sequence[Verdict]) -> CompletionOutput:
    """Joins a finished request's verdicts."""
    last = verdicts[-1]
    assert last.finish is not None, last
    assert request.params.seed is not None, request
    tokens = tuple(token for verdict in verdicts for token in verdict.tokens)
    scores = tuple(score for verdict in verdicts for score in verdict.logprobs)
    return CompletionOutput(
        index=index,
        text="".join(verdict.text for verdict in verdicts),
        token_ids=tokens,
        sources=tuple(source for verdict in verdicts for source in verdict.sources),
        finish_reason=last.finish.value,
        stop_reason=last.stop_reason,
        seed=request.params.seed,
        stats=last.stats,
        logprobs=tuple(_by_token(*pair) for pair in zip(tokens, scores, strict=True))
        if request.params.logprobs is not None
        else None,
    )


def _by_token(token: int, score: TokenLogprob) -> dict[int, Logprob]:
    best = {other: Logprob(logprob=logprob, rank=rank) for rank, (other, logprob) in enumerate(score.top, 1)}
    return {token: Logprob(logprob=score.logprob, rank=score.rank)} | best
