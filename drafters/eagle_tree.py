"""EagleTree: the drafts of several requests as they grow level by level, as in EAGLE-2 (arXiv 2406.16858)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

Nodes = tuple[list[int], list[int], list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The nodes that a draft goes on from, best first. tokens: target ids [b, w]. parents: [b, w], each one's place in
    the level before."""

    tokens: torch.Tensor
    parents: torch.Tensor


class EagleTree:
    """Of b drafts all candidates so far, and of these the `width` best of the last level, from which the next grows.

    They are ranked by the chance to be accepted with all their ancestors, a product in float64, which never rises
    downwards. So the best ones of all levels together are closed under parents.
    """

    def __init__(self, *, batch: int, width: int, device: torch.device) -> None:
        self._width = width
        self._size = 0
        self._survival = torch.ones(batch, 1, dtype=torch.float64, device=device)
        self._numbers = torch.zeros(batch, 1, dtype=torch.long, device=device)
        # Candidates are numbered from 1; 0 is the anchor.
        self._candidates: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def grow(self, tokens: torch.Tensor, chances: torch.Tensor) -> Level:
        """Adds the children [b, w, k] of the nodes that were followed; target ids, and their chances in float64."""
        children = tokens.shape[2]
        survival = (self._survival.unsqueeze(-1) * chances.clamp(max=1)).flatten(1)
        parents = self._numbers.unsqueeze(-1).expand(tokens.shape).flatten(1)
        self._candidates.append((tokens.flatten(1), parents, survival))
        self._survival, chosen = survival.topk(min(self._width, survival.shape[1]), dim=1)
        self._numbers = chosen + self._size + 1
        self._size += survival.shape[1]
        return Level(tokens=tokens.flatten(1).gather(1, chosen), parents=chosen // children)

    def reaches(self, least: float) -> bool:
        """Whether some node that may be followed survives with at least that chance."""
        return bool((self._survival >= least).any())

    def best(self, limits: Sequence[int], least: float) -> list[Nodes]:
        """Of each draft at most that many of the nodes that survive best, and with at least that chance: their tokens,
        parents (-1 for the anchor) and survival, parents first. Nodes that cannot survive are left out."""
        tokens, parents, survival = (torch.cat(parts, dim=1) for parts in zip(*self._candidates, strict=True))
        # Stable: of a parent and a child that survive alike, the parent stands before.
        ranked, order = survival.sort(dim=1, descending=True, stable=True)
        rank = torch.arange(self._size, device=survival.device)
        wanted = rank < torch.tensor(limits, device=survival.device)[:, None]
        taken = wanted & (ranked >= least) & (ranked > 0)
        lengths = taken.sum(dim=1).tolist()
        chosen = order.masked_fill(~taken, self._size)[:, : max(limits)].sort(dim=1).values
        places = torch.full((len(limits), self._size + 2), -1, device=survival.device)
        places.scatter_(1, chosen + 1, rank[: chosen.shape[1]].expand_as(chosen))
        chosen = chosen.clamp(max=self._size - 1)
        above = places.gather(1, parents.gather(1, chosen))
        columns = (tokens.gather(1, chosen).tolist(), above.tolist(), survival.gather(1, chosen).tolist())
        return [(drawn[:n], over[:n], chances[:n]) for n, drawn, over, chances in zip(lengths, *columns, strict=True)]
