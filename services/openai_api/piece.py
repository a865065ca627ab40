"""Piece: a part of one choice, from one verdict of a stream up to the whole answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from protos.messages import Finish, RequestStats, TokenLogprob, Tokens, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """`start` is where its text begins in the choice's text, 0 for the first piece of a choice."""

    index: int
    seed: int
    start: int = 0
    text: str = ""
    token_ids: Tokens = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish: Finish | None = None
    stop_reason: int | str | None = None
    stats: RequestStats = field(default_factory=RequestStats)

    def with_verdicts(self, verdicts: Sequence[Verdict]) -> Piece:
        """This piece and what the next verdicts, at least one, add to it."""
        last = verdicts[-1]
        return Piece(
            index=self.index,
            seed=self.seed,
            start=self.start,
            text=self.text + "".join(verdict.text for verdict in verdicts),
            token_ids=self.token_ids + tuple(token for verdict in verdicts for token in verdict.tokens),
            logprobs=self.logprobs + tuple(entry for verdict in verdicts for entry in verdict.logprobs),
            finish=last.finish,
            stop_reason=last.stop_reason,
            stats=last.stats,
        )

    def rest(self) -> Piece:
        """The empty piece that follows this one."""
        return Piece(index=self.index, seed=self.seed, start=self.start + len(self.text), stats=self.stats)
