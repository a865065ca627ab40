"""packed: a message of all items that can be sent; one that cannot does not take the others with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Message = TypeVar("Message")


def packed(pack: Callable[[Sequence[Item]], Message], items: Sequence[Item]) -> tuple[Message, int]:
    """The message, and how many items are not in it."""
    try:
        return pack(items), 0
    except (ValueError, TypeError):
        good = [item for item in items if _can_be(pack, item)]
        return pack(good), len(items) - len(good)


def _can_be(pack: Callable[[Sequence[Item]], Message], item: Item) -> bool:
    try:
        pack([item])
    except (ValueError, TypeError) as error:
        logger.warning("left out, as it cannot be sent: %s", error)
        return False
    return True
