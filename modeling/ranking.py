"""The order of tokens by logit, one for all: highest first, and the lowest id wins a tie."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

Row = NDArray[np.float32]
Ids = NDArray[np.int64]

_WINDOWS = (6.0, 10.0, 14.0)


def host_row(logits: torch.Tensor) -> Row:
    """Logits as a float32 array on the host, a view where they are that already: not to be written to."""
    row: Row = logits.detach().to(device="cpu", dtype=torch.float32).numpy()
    return row


def argmax_lowest(logits: torch.Tensor) -> torch.Tensor:
    """Lowest id among the highest logits, [..., V] -> int64 [...], on the logits' device.

    Both libraries document that the first maximum wins; numpy's search is some twenty times faster on a CPU.
    """
    if logits.device.type != "cpu":
        return logits.argmax(dim=-1)
    return torch.from_numpy(np.asarray(host_row(logits).argmax(axis=-1)))


def best_few(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` best of logits [..., V], the best first, and their ids, [..., count] each, on the logits' device.

    Of equal ones the lowest id stands first; of those at the end any may be taken. numpy's selection takes a third of
    the time of torch's on a CPU.
    """
    if logits.device.type != "cpu":
        return logits.topk(count, dim=-1)
    row = host_row(logits)
    ids = np.sort(np.argpartition(row, -count, axis=-1)[..., -count:], axis=-1)
    values = np.take_along_axis(row, ids, axis=-1)
    order = np.argsort(-values, axis=-1, kind="stable")
    best, ranked = (torch.from_numpy(np.take_along_axis(each, order, axis=-1)) for each in (values, ids))
    return best, ranked


def best_ids(scores: Row, count: int) -> Ids:
    """Positions of the `count` best scores, ascending; fewer where the rest is -inf. The best score must be 0."""
    for ids in windows(scores):
        if len(ids) >= count:
            break
    if len(ids) <= count:
        return ids
    values = scores[ids]
    return ids[cut(values, count, threshold=np.partition(values, -count)[-count])]


def windows(scores: Row) -> Iterator[Ids]:
    """Ever larger sets of the best positions, ascending, up to all that are not -inf. The best score must be 0."""
    for width in _WINDOWS:
        yield np.flatnonzero(scores >= -width)
    yield np.flatnonzero(scores > -np.inf)


def cut(values: Row, count: int, *, threshold: np.float32) -> Ids:
    """Positions of the `count` best values, ascending, given the value of the last of them."""
    above = np.flatnonzero(values > threshold)
    ties = np.flatnonzero(values == threshold)[: count - len(above)]
    return np.sort(np.concatenate((above, ties)))
