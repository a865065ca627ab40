"""Plan: how several works are packed into one forward. Built once per forward, used by every layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from modeling.work import Work

QUERY_STEP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionGroup:
    """Works on adjacent slots that share one attention call.

    size: queries of each slot, padded to the longest. rows [b * size]: packed row of each query (any row as padding),
    None where that is just the order. mask [b, 1, size * group, kv_len], padded in dim 2 to a multiple of QUERY_STEP,
    additive; `group` query heads share a KV head and are folded into rows.
    """

    slots: slice
    size: int
    kv_len: int
    rows: torch.Tensor | None
    mask: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """R packed rows. ids, positions, slots, kv_rows: [R]. restore [R]: where each row lies in the groups' joined
    output, None where that is just the order. logit_rows [M]: rows whose logits are asked for."""

    ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    kv_rows: torch.Tensor
    groups: tuple[AttentionGroup, ...]
    restore: torch.Tensor | None
    logit_rows: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a plan must know of the model. group: query heads that share a KV head. kv_step: see modeling.kv_step."""

    group: int
    kv_step: int
    dtype: torch.dtype
    device: torch.device


def make_plan(works: Sequence[Work], layout: Layout) -> Plan:
    """Packs the works; rows stand in the order of the works."""
    offsets = _offsets(works)
    places = [_positions(work) for work in works]
    groups, joined = [], []
    for members in _adjacent(works):
        group, rows = _attention_group([works[i] for i in members], [offsets[i] for i in members], offsets[-1], layout)
        groups.append(group)
        joined.extend(rows)
    restore = [0] * offsets[-1]
    for place, row in enumerate(joined):
        if row is not None:
            restore[row] = place
    in_order = joined == list(range(offsets[-1]))
    logit_rows = [r for i, w in enumerate(works) for r in range(offsets[i + 1] - w.num_logits, offsets[i + 1])]

    def index(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.long, device=layout.device)

    return Plan(
        ids=index([t for w in works for t in w.tokens]),
        positions=index([p for place in places for p in place]),
        slots=index([w.slot for w in works for _ in w.tokens]),
        kv_rows=index([w.start + i for w in works for i in range(len(w.tokens))]),
        groups=tuple(groups),
        restore=None if in_order else index(restore),
        logit_rows=index(logit_rows),
    )


def round_up(value: int, step: int) -> int:
    """The next multiple of step."""
    return -(-value // step) * step


def _offsets(works: Sequence[Work]) -> list[int]:
    offsets = [0]
    for work in works:
        assert work.tokens, f"empty work on slot {work.slot}"
        assert 0 <= work.num_logits <= len(work.tokens), work
        offsets.append(offsets[-1] + len(work.tokens))
    return offsets


def _positions(work: Work) -> list[int]:
    if work.parents is None:
        return list(range(work.start, work.start + len(work.tokens)))
    positions: list[int] = []
    for parent in work.parents:
        positions.append(work.start if parent < 0 else positions[parent] + 1)
    return positions


def _adjacent(works: Sequence[Work]) -> Iterator[list[int]]:
    """Works (by index) on neighbouring slots, alike enough in size that padding costs less than a call."""
    order = sorted(range(len(works)), key=lambda i: works[i].slot)
    members: list[int] = []
    for i in order:
        if members and not _joins([works[j] for j in members], works[i]):
            yield members
            members = []
        members.append(i)
    yield members


def _joins(members: list[Work], work: Work) -> bool:
    both = [*members, work]
    sizes = [len(w.tokens) for w in both]
    ends = [w.start + len(w.tokens) for w in both]
    fits = len(both) * max(sizes) <= 2 * sum(sizes) + 4 * QUERY_STEP
    return work.slot == members[-1].slot + 1 and fits and max(ends) <= 2 * min(ends) + 512


def _attention_group(
    works: Sequence[Work], offsets: Sequence[int], total: int, layout: Layout
) -> tuple[AttentionGroup, list[int | None]]:
    size = max(len(w.tokens) for w in works)
    kv_len = round_up(max(w.start + len(w.tokens) for w in works), layout.kv_step)
    rows: list[int | None] = [
        offset + i if i < len(w.tokens) else None for w, offset in zip(works, offsets, strict=True) for i in range(size)
    ]
    gather = torch.tensor([0 if row is None else row for row in rows], dtype=torch.long, device=layout.device)
    in_order = rows == list(range(total))
    group = AttentionGroup(
        slots=slice(works[0].slot, works[-1].slot + 1),
        size=size,
        kv_len=kv_len,
        rows=None if in_order else gather,
        mask=_mask(works, size, kv_len, layout),
    )
    return group, rows


def _mask(works: Sequence[Work], queries: int, kv_len: int, layout: Layout) -> torch.Tensor:
    """Additive mask [b, 1, folded rows, kv_len]: 0 where a query may look, -inf elsewhere; padding looks at key 0."""
    limits = [[_limit(w, i) for i in range(queries)] for w in works]
    visible = torch.arange(kv_len, device=layout.device) < torch.tensor(limits, device=layout.device)[:, :, None]
    for b, work in enumerate(works):
        if work.parents is not None:
            n = len(work.tokens)
            visible[b, :n, work.start : work.start + n] = _ancestors(work.parents).to(layout.device)
    folded = visible.repeat_interleave(layout.group, dim=1)
    padded = round_up(folded.shape[1], QUERY_STEP)
    size = (len(works), 1, padded, kv_len)
    mask = torch.full(size, float("-inf"), dtype=layout.dtype, device=layout.device)
    mask[:, 0, :, 0] = 0
    mask[:, 0, : folded.shape[1]].masked_fill_(folded, 0)
    return mask


def _limit(work: Work, i: int) -> int:
    if i >= len(work.tokens):
        return 1
    return work.start if work.parents is not None else work.start + i + 1


def _ancestors(parents: Sequence[int]) -> torch.Tensor:
    """[n, n] bool: token i sees token j."""
    seen = torch.eye(len(parents), dtype=torch.bool)
    for i, parent in enumerate(parents):
        if parent >= 0:
            seen[i] |= seen[parent]
    return seen
