"""How the paths of a prefix take in one more text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from protos.draft_files import MAX_PATHS, Path
from protos.messages import Tokens

MOST_TEXTS = 2**31 - 1  # that a path counts: the most that a message can tell of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """paths: in their places, which stay the same. place: of the path that the text took.

    changed: tokens are new, not only a count.
    """

    paths: tuple[Path, ...]
    place: int
    changed: bool


def take(paths: Sequence[Path], tokens: Tokens) -> Taken:
    """A text that goes on with `tokens` takes the path that has these, begins with these or is where these begin.

    Where there is none it gets its own, if need be in the place of the path that the fewest texts took.
    """
    place = same_way(paths, tokens)
    if place is not None:
        old = paths[place]
        longer = len(tokens) > len(old.tokens)
        path = counted(replace(old, tokens=tokens if longer else old.tokens), 1)
        return Taken(paths=(*paths[:place], path, *paths[place + 1 :]), place=place, changed=longer)
    place = len(paths)
    if place == MAX_PATHS:
        place = min(range(MAX_PATHS), key=lambda i: paths[i].count)
    return Taken(paths=(*paths[:place], Path(tokens=tokens), *paths[place + 1 :]), place=place, changed=True)


def counted(path: Path, more: int) -> Path:
    """So many texts more took it; at MOST_TEXTS its count stays."""
    return replace(path, count=min(path.count + more, MOST_TEXTS))


def same_way(paths: Sequence[Path], tokens: Tokens) -> int | None:
    """The path that agrees with `tokens` as far as both go: on most tokens, then the one most texts took."""
    agreeing = [
        (min(len(path.tokens), len(tokens)), path.count, -place)
        for place, path in enumerate(paths)
        if all(a == b for a, b in zip(path.tokens, tokens, strict=False))
    ]
    return -max(agreeing)[2] if agreeing else None
