"""TrackRecord: what came of one source's drafts, and what the next one is worth by it."""

from __future__ import annotations

from collections.abc import Sequence

from protos.draft import ANCHOR, Draft

MEMORY = 64.0
PRIOR_TOKENS = 4.0
INHERITED = 4.0


class TrackRecord:
    """Sums over drafts that have been decided: the older ones fade, MEMORY of them count.

    Every draft counts once, verified or not, as soon as the committed text says of all its tokens whether they came
    true: `promised` is the sum of its survival estimates, `lived` how many tokens of it the text followed. Drafts whose
    text ended before, and answers without a draft, count nowhere. Two things are estimated:

    - `worth`: the expected accepted length of a draft, its promise times Σ lived / Σ promised. PRIOR_TOKENS tokens that
      came as promised are added to both sums, so that a few drafts decide little.
    - `usual`: the mean of lived. One draft that came true as a whole is added, so that a source nobody knows is tried.
    """

    def __init__(self, ancestor: TrackRecord | None = None) -> None:
        """An heir begins with its ancestor's averages, worth INHERITED drafts, and tells it what it learns."""
        self._ancestor = ancestor
        self._drafts = self._promised = self._lived = 0.0
        if ancestor is not None and ancestor._drafts:
            share = min(1.0, INHERITED / ancestor._drafts)
            self._drafts = share * ancestor._drafts
            self._promised = share * ancestor._promised
            self._lived = share * ancestor._lived

    def judge(self, draft: Draft, lived: int) -> None:
        """Takes in a draft of which so many tokens came true one after the other."""
        kept = 1 - 1 / MEMORY
        self._drafts = kept * self._drafts + 1
        self._promised = kept * self._promised + sum(draft.survival)
        self._lived = kept * self._lived + lived
        if self._ancestor is not None:
            self._ancestor.judge(draft, lived)

    def worth(self, draft: Draft) -> float:
        """Tokens of a draft that are expected to be accepted, by what became of others."""
        ratio = (self._lived + PRIOR_TOKENS) / (self._promised + PRIOR_TOKENS)
        return min(ratio * sum(draft.survival), float(len(draft)))

    def usual(self, longest: int) -> float:
        """Tokens that are accepted of a draft on average; `longest` bounds a draft."""
        return min((self._lived + longest) / (self._drafts + 1), float(longest))


def outcome(draft: Draft, committed: Sequence[int]) -> int | None:
    """How many tokens of a draft came true, one after the other, by what was committed after its base.

    None where the text is still within the draft, so that more may come true.
    """
    edges = zip(draft.parents, draft.tokens, strict=True)
    children = {edge: node for node, edge in enumerate(edges)}
    node, lived = ANCHOR, 0
    for token in committed:
        child = children.get((node, token))
        if child is None:
            return lived
        node, lived = child, lived + 1
    return None if node in draft.parents else lived
