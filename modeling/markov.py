"""Heads on a block net: how a draft token bends the next one's logits, and whether a token will be accepted.

All of a block's tokens are computed at once, so none knows which token the one before it became. A Markov head adds a
bias that depends on just that token, left to right (arXiv 2607.05147, section 3.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

MarkovKind = Literal["none", "vanilla", "gated", "rnn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkovShape:
    """hidden: width of the block's states. rank: width of a token's embedding. previous: ids that may come before;
    outputs: ids that may follow."""

    hidden: int
    rank: int
    previous: int
    outputs: int


class VanillaMarkov(nn.Module):
    """bias = W2 · W1[previous]. It starts as no bias at all."""

    def __init__(self, shape: MarkovShape) -> None:
        super().__init__()
        self.rank = shape.rank
        self.previous = nn.Embedding(shape.previous, shape.rank)
        self.out = nn.Linear(shape.rank, shape.outputs, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(
        self, previous: torch.Tensor, hidden: torch.Tensor, state: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """One step: draft ids [...] of the tokens before, hidden [..., d] → (bias [..., V'], state for the next step).

        The first step's state is None.
        """
        mixed, state = self._mix(self.previous(previous), hidden, state)
        bias: torch.Tensor = self.out(mixed)
        return bias, state

    def teacher_forced(self, previous: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """What `out` makes biases of, [b, γ, rank], where all tokens are known: previous [b, γ], hidden [b, γ, d]."""
        return self._mix(self.previous(previous), hidden, None)[0]

    def _mix(
        self,
        embedded: torch.Tensor,
        hidden: torch.Tensor,  # noqa: ARG002  for those who look at it
        state: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        return embedded, state


class GatedMarkov(VanillaMarkov):
    """bias = W2 · (g * e), e = W1[previous], g = σ(Wg [h; e] + b): the block's state says what of the token counts."""

    def __init__(self, shape: MarkovShape) -> None:
        super().__init__(shape)
        self.gate = nn.Linear(shape.hidden + shape.rank, shape.rank)

    def _mix(
        self, embedded: torch.Tensor, hidden: torch.Tensor, state: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        gate = self.gate(torch.cat((hidden, embedded), dim=-1)).sigmoid()
        return gate * embedded, state


class RecurrentMarkov(VanillaMarkov):
    """One linear of [s; e; h] gives gate, candidate, output; s' = σ(gate) s + (1 - σ(gate)) tanh(candidate);
    bias = W2 tanh(output). s is 0 at first."""

    def __init__(self, shape: MarkovShape) -> None:
        super().__init__(shape)
        self.cell = nn.Linear(2 * shape.rank + shape.hidden, 3 * shape.rank)

    def teacher_forced(self, previous: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        state, mixed = None, []
        for k in range(previous.shape[1]):
            out, state = self._mix(self.previous(previous[:, k]), hidden[:, k], state)
            mixed.append(out)
        return torch.stack(mixed, dim=1)

    def _mix(
        self, embedded: torch.Tensor, hidden: torch.Tensor, state: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        before = torch.zeros_like(embedded) if state is None else state
        gate, candidate, out = self.cell(torch.cat((before, embedded, hidden), dim=-1)).chunk(3, dim=-1)
        kept = gate.sigmoid()
        return out.tanh(), kept * before + (1 - kept) * candidate.tanh()


class Confidence(nn.Module):
    """P(token k is accepted | those before it are) = σ(w · [h_k; e_{k-1}] + b); it does not look at token k itself.

    e is the Markov head's embedding of the token before; without a Markov head h_k stands alone.
    """

    def __init__(self, hidden: int, markov: VanillaMarkov | None) -> None:
        super().__init__()
        self.score = nn.Linear(hidden + (markov.rank if markov is not None else 0), 1)

    def forward(self, hidden: torch.Tensor, embedded: torch.Tensor | None) -> torch.Tensor:
        """Logits [...] from hidden [..., d] and embedded [..., rank] or None."""
        seen = hidden if embedded is None else torch.cat((hidden, embedded), dim=-1)
        score: torch.Tensor = self.score(seen)
        return score.squeeze(-1)


MARKOV: dict[MarkovKind, type[VanillaMarkov]] = {
    "vanilla": VanillaMarkov,
    "gated": GatedMarkov,
    "rnn": RecurrentMarkov,
}
