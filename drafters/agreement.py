"""agreeing: how much of what a drafter holds of a text survives a query's tail."""

from __future__ import annotations

from collections.abc import Sequence


def agreeing(text: Sequence[int], tail_start: int, tail: Sequence[int]) -> int:
    """How many leading tokens a text keeps when it is cut to `tail_start` and goes on with the tail.

    What follows from these tokens alone stays valid, as after a lost answer, when the tail repeats what was there.
    """
    same = tail_start
    for held, token in zip(text[tail_start:], tail, strict=False):
        if held != token:
            break
        same += 1
    return same
