"""Which draft tokens become text: by match with the target's own draw, or by the ratio of probabilities.

Both walk the draft from its root, one emitted token at a time, and ask for a row's logits only once everything before
it is emitted: the draw at a row sees exactly the committed tokens. Row 0 is the anchor's, row i + 1 node i's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from modeling.noise import Stream, uniform
from protos.draft import ANCHOR, Draft

Probs = NDArray[np.floating]

_NO_MASS = 1e-8


class TargetRows(Protocol):
    """The target at the rows of one draft, given the tokens emitted so far."""

    def draw(self, row: int) -> int:
        """The target's own token after `row`, as without a draft."""
        ...

    def distribution(self, row: int) -> Probs:
        """The processed distribution [V] after `row`."""
        ...

    def emit(self, token: int) -> bool:
        """Commits a token. False: the text ends with it, nothing may follow."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """`path`: accepted nodes, from the root down. `tokens`: those emitted; the first len(path) are the path's own.

    One more token than nodes, the target's own, unless the text ended on an accepted node.
    """

    path: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioNoise:
    """The ratio rule's randomness, none of it shared with token draws. `start`: position of the first emitted token."""

    seed: int
    start: int

    def uniform(self, depth: int, attempt: int) -> float:
        """In (0, 1), for the `attempt`-th acceptance test after `depth` emitted tokens."""
        return uniform(self.seed, self.start + depth, Stream.ACCEPT, attempt)

    def residual(self, depth: int, weights: Probs) -> int:
        """A token drawn in proportion to `weights` [V]."""
        reached = np.cumsum(weights)
        coin = uniform(self.seed, self.start + depth, Stream.RESIDUAL)
        return int(np.searchsorted(reached, coin * reached[-1], side="right"))


def accept_match(draft: Draft, target: TargetRows) -> Acceptance:
    """Emits the target's own draws, and follows the draft for as long as it holds them.

    The text does not depend on the draft at all. Of two children with the same token the first is followed.
    """
    return _walk(target, lambda node, _: _match(draft, target, node))


def accept_ratio(
    draft: Draft, target: TargetRows, noise: RatioNoise, *, proposals: Sequence[Probs | None] | None = None
) -> Acceptance:
    """Speculative sampling (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318) on a chain or a tree.

    Each emitted token follows the target's distribution given those before it. `proposals[i]`: the distribution [V]
    that node i's token was drawn from, given its ancestors and its earlier siblings (drawn without replacement, the
    later ones' are renormalised); None where the token is a function of the context, which is also the default.
    Siblings are tried in order, each against what the earlier ones left of the target (SpecInfer, arXiv 2305.09781).
    Where the draft ends untested its own distribution is drawn from: there is no residual without a rejection. No draw
    uses the noise of `TargetRows.draw`, which a drafter may share: what was proposed, or held back, must not bias it.

    Exact only if what was submitted does not depend on a node's own token or later ones (a scheduler that looks at a
    sampled token before it submits it is biased; DSpark, arXiv 2607.05147, appendix A).
    """
    if proposals is not None and len(proposals) != len(draft.tokens):
        raise ValueError(f"{len(proposals)} proposals for {len(draft.tokens)} nodes; give one (or None) for each")
    trial = _Ratio(draft, target, noise, proposals or (None,) * len(draft.tokens))
    return _walk(target, trial.decide)


Decision = tuple[int, int | None]


def _walk(target: TargetRows, decide: Callable[[int, int], Decision]) -> Acceptance:
    """Follows accepted children until one is missing or the text ends."""
    node: int | None = ANCHOR
    path: list[int] = []
    tokens: list[int] = []
    while node is not None:
        token, node = decide(node, len(tokens))
        tokens.append(token)
        if node is not None:
            path.append(node)
        if not target.emit(token):
            break
    return Acceptance(path=tuple(path), tokens=tuple(tokens))


def _match(draft: Draft, target: TargetRows, node: int) -> Decision:
    token = target.draw(node + 1)
    return token, next((child for child in _children(draft, node) if draft.tokens[child] == token), None)


@dataclass(frozen=True, slots=True)
class _Ratio:
    draft: Draft
    target: TargetRows
    noise: RatioNoise
    proposals: Sequence[Probs | None]

    def decide(self, node: int, depth: int) -> Decision:
        left = np.asarray(self.target.distribution(node + 1), np.float64)
        for attempt, child in enumerate(_children(self.draft, node)):
            token, proposal = self.draft.tokens[child], self.proposals[child]
            proposed = 1.0 if proposal is None else float(proposal[token])
            if self.noise.uniform(depth, attempt) * proposed < left[token]:
                return token, child
            left = _residual(left, token, proposal)
        return self.noise.residual(depth, left), None


def _residual(left: NDArray[np.float64], token: int, proposal: Probs | None) -> NDArray[np.float64]:
    """What a rejection leaves: the part of `left` above the proposal, normalised.

    With no mass to speak of the two are equal up to rounding, and the rejection was rounding too: `left` stands.
    """
    if proposal is None:
        rest = left.copy()
        rest[token] = 0
    else:
        rest = np.maximum(left - proposal, 0)
    mass = rest.sum()
    return left if mass <= _NO_MASS else rest / mass


def _children(draft: Draft, node: int) -> list[int]:
    return [i for i in range(node + 1, len(draft.parents)) if draft.parents[i] == node]
