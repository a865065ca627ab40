"""Bits of the packed forward on the built-in model: a row is the same alone, in chunks, in company and in a draft."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from modeling.builtin import builtin_dir
from modeling.target import Target
from modeling.work import Work
from tests.conftest import builtin

pytestmark = pytest.mark.model

TEXT = """The sea is never the same twice. In the morning it lies flat and grey, and the boats seem to hang in the air.
def area(width: float, height: float) -> float:
    return width * height
A train leaves the station at 9:40 and arrives 2 hours and 35 minutes later; it arrives at 12:15. Once upon a time there
was a king who had three daughters, and the youngest of them could speak with birds."""
ROWS = 96


@pytest.fixture(scope="module")
def ids(builtin_target: Target) -> tuple[int, ...]:
    return tuple(builtin_target.tokenizer(TEXT)["input_ids"][:ROWS])


@pytest.fixture(scope="module")
def alone(builtin_target: Target, ids: tuple[int, ...]) -> torch.Tensor:
    """Logits of every row, each computed in a forward of its own."""
    return in_chunks(builtin_target, ids, [1] * ROWS, slot=0)


def in_chunks(
    target: Target, ids: tuple[int, ...], sizes: list[int], *, slot: int, neighbours: tuple[tuple[int, int], ...] = ()
) -> torch.Tensor:
    """The same text in chunks, beside `neighbours` (slot, tokens) that start anew in every forward."""
    logits, start = [], 0
    for size in sizes:
        mine = Work(slot=slot, start=start, tokens=ids[start : start + size], num_logits=size)
        others = [Work(slot=s, start=0, tokens=ids[-n:], num_logits=1) for s, n in neighbours]
        logits.append(target.runner.forward([mine, *others]).logits[:size])
        start += size
    return torch.cat(logits)


@pytest.mark.parametrize(
    ("sizes", "neighbours"),
    [
        ([ROWS], ()),
        ([33, 33, 30], ()),
        ([9, 1, 2, 3, 64, 17], ()),
        ([8] * 12, ((0, 1), (1, 8), (2, 5), (4, 40))),
        ([48, 48], ((5, 50), (7, 3), (8, 90))),
    ],
)
def test_chunks_and_company_leave_the_bits(
    builtin_target: Target,
    ids: tuple[int, ...],
    alone: torch.Tensor,
    sizes: list[int],
    neighbours: tuple[tuple[int, int], ...],
) -> None:
    assert torch.equal(in_chunks(builtin_target, ids, sizes, slot=3, neighbours=neighbours), alone)


def test_the_first_chain_of_a_tree_keeps_its_bits(
    builtin_target: Target, ids: tuple[int, ...], alone: torch.Tensor
) -> None:
    start = 60
    in_chunks(builtin_target, ids, [start], slot=2)
    tokens, parents = (*ids[start : start + 4], 5, 6, 7), (-1, 0, 1, 2, -1, 4, 1)
    tree = Work(slot=2, start=start, tokens=tokens, num_logits=len(tokens), parents=parents)
    assert torch.equal(builtin_target.runner.forward([tree]).logits[:4], alone[start : start + 4])


def test_logits_are_those_of_transformers(builtin_fp32: Target) -> None:
    ids = tuple(builtin_fp32.tokenizer(TEXT)["input_ids"])
    ours = builtin_fp32.runner.forward([Work(slot=0, start=0, tokens=ids, num_logits=len(ids))]).logits
    torch.testing.assert_close(ours, _of_transformers(ids, torch.float32), atol=5e-4, rtol=1e-3)


def test_bf16_is_no_further_from_fp32_than_transformers_own() -> None:
    """Mean KL divergence over real text."""
    target = builtin("bf16")
    ids = tuple(target.tokenizer(TEXT)["input_ids"])
    ours = target.runner.forward([Work(slot=0, start=0, tokens=ids, num_logits=len(ids))]).logits
    truth = _of_transformers(ids, torch.float32).log_softmax(-1)
    theirs = _of_transformers(ids, torch.bfloat16)
    assert _divergence(truth, ours) <= _divergence(truth, theirs)


def _of_transformers(ids: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(builtin_dir(), dtype=dtype).eval()
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0]


def _divergence(truth: torch.Tensor, logits: torch.Tensor) -> float:
    return torch.nn.functional.kl_div(
        logits.float().log_softmax(-1), truth, log_target=True, reduction="batchmean"
    ).item()
