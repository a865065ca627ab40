"""Draft: proposed tokens for one request, a chain or a tree, rooted at the anchor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protos.messages import DraftChunk, Tokens

ANCHOR = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Nodes after `base_len` committed tokens. `parents[i] < i`, `ANCHOR` for the roots.

    `survival[i]` estimates P(node accepted with all its ancestors). `sources[i]` names who proposed the node.
    Every method returns a draft that is still well-formed; a hint that does not fit is dropped, never an error.
    """

    request_id: str
    base_len: int
    tokens: Tokens = ()
    parents: Tokens = ()
    survival: tuple[float, ...] = ()
    sources: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """True where each node follows the one before it."""
        return all(parent == i - 1 for i, parent in enumerate(self.parents))

    def extend(self, chunk: DraftChunk) -> Draft:
        """Appends a chunk that continues exactly this draft; returns self for a stale, repeated or malformed one."""
        if not self._continued_by(chunk):
            return self
        return Draft(
            request_id=self.request_id,
            base_len=self.base_len,
            tokens=self.tokens + chunk.tokens,
            parents=self.parents + chunk.parents,
            survival=self.survival + chunk.survival,
            sources=self.sources + (chunk.source,) * len(chunk.tokens),
        )

    def take(self, n: int) -> Draft:
        """The first n nodes; parents precede children, so any prefix is well-formed."""
        return self if n >= len(self) else self._select(range(max(n, 0)))

    def after(self, committed: Sequence[int]) -> Draft:
        """What still fits once `committed` (tokens since base_len) is decided: the part below the matching path."""
        node = ANCHOR
        for token in committed:
            matches = (i for i, t in enumerate(self.tokens) if t == token and self.parents[i] == node)
            child = next(matches, None)
            if child is None:
                return Draft(request_id=self.request_id, base_len=self.base_len + len(committed))
            node = child
        below = self._descendants(node)
        return self._select(below, root=node, base_len=self.base_len + len(committed))

    def best_prefix(self, n: int) -> Draft:
        """The n nodes of highest survival, closed under parents (survival never rises downwards; ties keep order)."""
        if n >= len(self):
            return self
        ranked = sorted(range(len(self)), key=lambda i: (-self.survival[i], i))
        return self._select(sorted(ranked[: max(n, 0)]))

    def depths(self) -> Tokens:
        """Depth of each node, 1 for the anchor's children."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ANCHOR else depths[parent] + 1)
        return tuple(depths)

    def _continued_by(self, chunk: DraftChunk) -> bool:
        size = len(chunk.tokens)
        return (
            chunk.request_id == self.request_id
            and chunk.base_len == self.base_len
            and chunk.offset == len(self)
            and len(chunk.parents) == len(chunk.survival) == size
            and all(ANCHOR <= parent < chunk.offset + i for i, parent in enumerate(chunk.parents))
            and self._survival_falls(chunk)
        )

    def _survival_falls(self, chunk: DraftChunk) -> bool:
        """Each estimate is in [0, 1] and at most its parent's; `best_prefix` is closed under parents because of it."""
        survival = self.survival + chunk.survival
        return all(
            0.0 <= own <= (1.0 if parent == ANCHOR else survival[parent])
            for own, parent in zip(chunk.survival, chunk.parents, strict=True)
        )

    def _descendants(self, node: int) -> list[int]:
        if node == ANCHOR:
            return list(range(len(self)))
        inside = {node}
        for i, parent in enumerate(self.parents):
            if parent in inside:
                inside.add(i)
        return sorted(inside - {node})

    def _select(self, nodes: Sequence[int], *, root: int = ANCHOR, base_len: int | None = None) -> Draft:
        renamed = {root: ANCHOR} | {old: new for new, old in enumerate(nodes)}
        given = 1.0 if root == ANCHOR else max(self.survival[root], 1e-9)
        return Draft(
            request_id=self.request_id,
            base_len=self.base_len if base_len is None else base_len,
            tokens=tuple(self.tokens[i] for i in nodes),
            parents=tuple(renamed[self.parents[i]] for i in nodes),
            survival=tuple(min(self.survival[i] / given, 1.0) for i in nodes),
            sources=tuple(self.sources[i] for i in nodes),
        )
