"""Batch: each prediction has the right label, the right law and the token before; masks keep blocks apart."""

from __future__ import annotations

import torch

from drafters.training.answers import Example
from drafters.training.blocks import block_mask, block_positions, make_batch
from drafters.training.features import Features

LONG = Example(tokens=(10, 11, 12, 13, 14, 15, 16), prompt_len=3, domain="")
SHORT = Example(tokens=(20, 21, 22, 23), prompt_len=2, domain="")


def numbered(example: Example) -> Features:
    """Features in which a law carries the label that it is the law of, and taps their position."""
    rows = len(example.tokens) - 1
    labels = torch.tensor(example.tokens[example.prompt_len + 1 :])
    return Features(
        taps=torch.arange(1.0, rows + 1)[:, None].expand(rows, 2).to(torch.bfloat16),
        law_ids=labels[:, None].to(torch.int32),
        law_probs=torch.ones(len(labels), 1, dtype=torch.float16),
    )


def test_labels_laws_and_tokens_before_are_those_after_the_anchor() -> None:
    anchors = [torch.tensor([3, 5]), torch.tensor([2])]
    batch = make_batch([LONG, SHORT], [numbered(LONG), numbered(SHORT)], anchors, predictions=3)
    assert batch.anchor_ids.tolist() == [[13, 15], [22, 22]]
    assert batch.valid.tolist() == [
        [[True, True, True], [True, False, False]],
        [[True, False, False], [False, False, False]],
    ]
    assert batch.labels[batch.valid].tolist() == [14, 15, 16, 16, 23]
    assert batch.previous[batch.valid].tolist() == [13, 14, 15, 15, 22]
    assert torch.equal(batch.law_ids[batch.valid][:, 0], batch.labels[batch.valid])
    assert batch.taps[:, :, 0].tolist() == [[1, 2, 3, 4, 5, 6], [1, 2, 3, 0, 0, 0]]


def test_a_block_sees_the_context_before_its_anchor_and_itself() -> None:
    anchors = torch.tensor([[2, 4, 5], [1, 1, 3]])
    mask = block_mask(anchors, 2, 6)
    assert mask.shape == (2, 1, 6, 12)
    for row in range(2):
        for query in range(6):
            block = query // 2
            seen = [position < anchors[row, block] for position in range(6)]
            own = [other // 2 == block for other in range(6)]
            assert mask[row, 0, query].tolist() == [*seen, *own]


def test_positions_count_on_from_the_anchor() -> None:
    assert block_positions(torch.tensor([[2, 7]]), 3).tolist() == [[2, 3, 4, 7, 8, 9]]
