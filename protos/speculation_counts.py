"""SpeculationCounts: what drafts brought, to one request or to all of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationCounts:
    """A draft is counted when at least one of its tokens was verified. `+` joins.

    `drafted`: tokens proposed; `verified`: of those, the ones the target processed; `accepted_per_pos[i]`: drafts whose
    (i+1)-th token was accepted and emitted; `sources`: accepted tokens by who guessed them.
    """

    num_drafts: int = 0
    drafted: int = 0
    verified: int = 0
    accepted_per_pos: tuple[int, ...] = ()
    sources: Mapping[str, int] = field(default_factory=dict)

    @property
    def accepted(self) -> int:
        """Draft tokens that became text."""
        return sum(self.accepted_per_pos)

    @property
    def accepted_length(self) -> float:
        """τ: tokens emitted per verification of a draft, the target's own included; 1 where nothing was drafted."""
        return 1 + self.accepted / self.num_drafts if self.num_drafts else 1.0

    @property
    def acceptance_by_position(self) -> tuple[float, ...]:
        """Share of the drafts whose (i+1)-th token was accepted; empty where nothing was drafted."""
        return tuple(count / self.num_drafts for count in self.accepted_per_pos)

    def __add__(self, other: SpeculationCounts) -> SpeculationCounts:
        positions = zip_longest(self.accepted_per_pos, other.accepted_per_pos, fillvalue=0)
        return SpeculationCounts(
            num_drafts=self.num_drafts + other.num_drafts,
            drafted=self.drafted + other.drafted,
            verified=self.verified + other.verified,
            accepted_per_pos=tuple(map(sum, positions)),
            sources={**self.sources, **{s: self.sources.get(s, 0) + n for s, n in other.sources.items()}},
        )
