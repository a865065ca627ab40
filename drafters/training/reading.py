"""Reading: the few numbers that a loss needs of a row of logits, without keeping all logits of a batch in fp32.

A batch has some thousand rows of logits as long as the vocabulary. Passing over them costs more time than the net
itself, unless it is done in pieces that stay in the cache: once forwards, once backwards, with all that a loss asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

ROWS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Of each row, [...]. log_label: log q of the label. log_law: log q of the law's tokens, [..., K]. best: the
    likeliest id, the lowest of equal ones. Ids at and above `size` = V' have log q of V' - 1, and mean nothing."""

    log_label: torch.Tensor
    log_law: torch.Tensor
    best: torch.Tensor
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bias:
    """Is added to the logits: mixed [..., r] times the transpose of a trained weight [V', r]."""

    mixed: torch.Tensor
    weight: torch.Tensor


def read(
    hidden: torch.Tensor, head: torch.Tensor, labels: torch.Tensor, law_ids: torch.Tensor, bias: Bias | None = None
) -> Reading:
    """Of the logits hidden · headᵀ (+ bias): hidden [..., d], head [V', d]. labels: [...]; law_ids: [..., K].

    Products are computed in the head's dtype, everything else in fp32.
    """
    size = len(head)
    ids = torch.cat((labels[..., None], law_ids), dim=-1).clamp(max=size - 1)
    rows = hidden.flatten(0, -2).to(head.dtype)
    mixed, weight = (None, None) if bias is None else (bias.mixed.flatten(0, -2).to(head.dtype), bias.weight)
    log_q, best = _Read.apply(rows, head, ids.flatten(0, -2), mixed, weight)  # type: ignore[no-untyped-call]
    log_q = log_q.view(ids.shape)
    return Reading(log_label=log_q[..., 0], log_law=log_q[..., 1:], best=best.view(labels.shape), size=size)


class _Read(torch.autograd.Function):
    """[N, d], [V', d], ids [N, m] (, [N, r], [V', r]) → log q of the ids [N, m] in fp32, and the likeliest ids [N]."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        head: torch.Tensor,
        ids: torch.Tensor,
        mixed: torch.Tensor | None,
        weight: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        kept, log_sums, of_ids, best = [], [], [], []
        cast = None if weight is None else weight.to(head.dtype)
        for rows in _pieces(len(hidden)):
            logits = (hidden[rows] @ head.T).float()
            if mixed is not None and cast is not None:
                logits += mixed[rows] @ cast.T
            kept.append(logits.to(head.dtype))
            log_sums.append(logits.logsumexp(dim=-1, keepdim=True))
            of_ids.append(logits.gather(-1, ids[rows]))
            best.append(logits.argmax(dim=-1))
        log_sum = torch.cat(log_sums)
        trained = hidden if ctx.needs_input_grad[1] else None
        ctx.save_for_backward(trained, head, ids, mixed, weight, log_sum, *kept)
        found = torch.cat(best)
        ctx.mark_non_differentiable(found)
        return torch.cat(of_ids) - log_sum, found

    @staticmethod
    def backward(ctx: Any, wanted: torch.Tensor, _best: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """d log q(i) / d logit(v) = [i = v] - q(v)."""
        hidden, head, ids, mixed, weight, log_sum, *kept = ctx.saved_tensors
        of_hidden, of_head, of_mixed, of_weight = [], None, [], None
        cast = None if weight is None else weight.to(head.dtype)
        sums = wanted.sum(dim=-1, keepdim=True)
        for rows, logits in zip(_pieces(len(ids)), kept, strict=True):
            slope = (logits.float() - log_sum[rows]).exp_().mul_(-sums[rows])
            slope = slope.scatter_add_(-1, ids[rows], wanted[rows]).to(head.dtype)
            of_hidden.append(slope @ head)
            if hidden is not None:
                of_head = _plus(of_head, slope.T @ hidden[rows])
            if mixed is not None and cast is not None:
                of_mixed.append(slope @ cast)
                of_weight = _plus(of_weight, slope.T @ mixed[rows])
        return torch.cat(of_hidden), of_head, None, torch.cat(of_mixed) if of_mixed else None, of_weight


def _plus(total: torch.Tensor | None, part: torch.Tensor) -> torch.Tensor:
    """The sum, in fp32 and in place."""
    return part.float() if total is None else total.add_(part)


def _pieces(rows: int) -> Iterator[slice]:
    return (slice(start, start + ROWS) for start in range(0, rows, ROWS))
