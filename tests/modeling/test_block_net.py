"""The block net against a plain computation of the same maths, batched, padded, in pieces and with several blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from modeling.block_net import BlockNet
from tests.fakes.block_nets import TINY, random_net
from tests.modeling.plain_block import PlainBlock, Vector

D, BLOCK = TINY.hidden_size, TINY.block_size
NEAR = {"rtol": 1e-4, "atol": 1e-4}


def vectors(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, D, generator=torch.Generator().manual_seed(seed))


def rows(x: torch.Tensor) -> list[Vector]:
    return list(x.detach().double().numpy())


def run(net: BlockNet, embeds: torch.Tensor, start: int, features: torch.Tensor) -> torch.Tensor:
    """One block alone, at `start`, after features of all positions before it."""
    contexts = [(k[None], v[None]) for k, v in net.context(features, torch.arange(len(features)))]
    mask = torch.ones(1, 1, len(embeds), len(features) + len(embeds), dtype=torch.bool)
    return net.block(embeds[None], start + torch.arange(len(embeds))[None], contexts, mask)[0]


@pytest.mark.parametrize("context", [0, 1, 9])
def test_a_block_after_its_context(context: int) -> None:
    net = random_net()
    embeds, features = vectors(BLOCK, 1), vectors(context, 2)
    plain = PlainBlock(net).block(rows(embeds), range(context, context + BLOCK), list(enumerate(rows(features))))
    np.testing.assert_allclose(rows(run(net, embeds, context, features)), plain, **NEAR)


def test_the_order_of_the_text_counts() -> None:
    net = random_net()
    embeds, features = vectors(BLOCK, 1), vectors(5, 2)
    assert not torch.allclose(run(net, embeds, 5, features), run(net, embeds, 5, features.flip(0)), **NEAR)


def test_blocks_of_a_batch_see_only_their_own_context() -> None:
    """Contexts of different lengths, padded with what must not matter."""
    net, lengths = random_net(), (3, 7, 0)
    embeds = [vectors(BLOCK, i) for i in range(3)]
    features = [vectors(length, 10 + i) for i, length in enumerate(lengths)]
    padded = torch.full((3, 7, D), 5.0)
    for row, own in zip(padded, features, strict=True):
        row[: len(own)] = own
    contexts = net.context(padded, torch.arange(7).expand(3, 7))
    seen = torch.arange(7) < torch.tensor(lengths)[:, None]
    mask = torch.cat((seen, torch.ones(3, BLOCK, dtype=torch.bool)), dim=1)[:, None, None].expand(-1, -1, BLOCK, -1)
    positions = torch.tensor(lengths)[:, None] + torch.arange(BLOCK)
    together = net.block(torch.stack(embeds), positions, contexts, mask)
    for i, length in enumerate(lengths):
        torch.testing.assert_close(together[i], run(net, embeds[i], length, features[i]), **NEAR)


def test_blocks_that_share_a_context() -> None:
    """As in training: two blocks in one row, each with what lies before its anchor, and itself."""
    net, starts = random_net(), (2, 5)
    embeds, features = [vectors(BLOCK, i) for i in range(2)], vectors(8, 3)
    positions = torch.cat([start + torch.arange(BLOCK) for start in starts])
    seen = torch.arange(8) < torch.tensor(starts).repeat_interleave(BLOCK)[:, None]
    own = torch.block_diag(*[torch.ones(BLOCK, BLOCK)] * 2).bool()
    contexts = [(k[None], v[None]) for k, v in net.context(features, torch.arange(8))]
    mask = torch.cat((seen, own), dim=1)[None, None]
    (together,) = net.block(torch.cat(embeds)[None], positions[None], contexts, mask)
    for i, start in enumerate(starts):
        alone = run(net, embeds[i], start, features[:start])
        torch.testing.assert_close(together[i * BLOCK : (i + 1) * BLOCK], alone, **NEAR)


def test_a_context_in_pieces_is_the_whole_one() -> None:
    net, features = random_net(), vectors(9, 4)
    whole = net.context(features, torch.arange(9))
    pieces = [net.context(features[a:b], torch.arange(a, b)) for a, b in ((0, 4), (4, 5), (5, 9))]
    for layer, (keys, values) in enumerate(whole):
        torch.testing.assert_close(torch.cat([piece[layer][0] for piece in pieces], dim=1), keys)
        torch.testing.assert_close(torch.cat([piece[layer][1] for piece in pieces], dim=1), values)


def test_fusion() -> None:
    net = random_net(feature_layers=(0, 3, 5))
    taps = [vectors(4, i) for i in range(3)]
    fused = net.fuse(torch.cat(taps, dim=-1))
    torch.testing.assert_close(net.fusion(taps), fused)
    plain = [PlainBlock(net).fuse(row) for row in zip(*map(rows, taps), strict=True)]
    np.testing.assert_allclose(rows(fused), plain, **NEAR)
    assert (net.fusion.layers, net.fusion.width) == ((0, 3, 5), D)


@pytest.mark.parametrize("mask_token_id", [None, 17])
def test_inputs_are_the_anchor_and_masks(mask_token_id: int | None) -> None:
    net, embedding = random_net(mask_token_id=mask_token_id), vectors(30, 5)
    mask = net.mask_embedding if mask_token_id is None else embedding[17]
    inputs = net.inputs(torch.tensor([[4, 9]]), embedding)
    assert inputs.shape == (1, 2, BLOCK, D)
    assert torch.equal(inputs[0, 1, 0], embedding[9])
    assert all(torch.equal(inputs[0, 0, k], mask) for k in range(1, BLOCK))


def test_draft_ids_and_target_ids() -> None:
    net = random_net(draft_vocab=(30, 7, 200))
    assert net.target_ids(torch.tensor([2, 0])).tolist() == [200, 30]
    assert net.draft_ids(torch.tensor([[7, 8, 200]])).tolist() == [[1, 3, 2]]
    assert random_net().draft_ids(torch.tensor([7])).tolist() == [7]


@pytest.mark.parametrize("draft_vocab", [None, (30, 7, 200, 5, 6)])
@pytest.mark.parametrize("markov", ["vanilla", "gated", "rnn"])
def test_markov_heads(markov: str, draft_vocab: tuple[int, ...] | None) -> None:
    """Known tokens all at once, step by step, and the plain formulas. The first token cannot be drafted."""
    net = random_net(markov=markov, markov_rank=8, draft_vocab=draft_vocab)
    previous = net.draft_ids(torch.tensor([[8, 7, 200, 7], [30, 5, 6, 30]]))
    hidden = torch.stack((vectors(4, 6), vectors(4, 7)))
    assert net.markov is not None
    forced = net.markov.out(net.markov.teacher_forced(previous, hidden))
    assert forced.shape == (2, 4, net.config.draft_vocab_size)
    state = None
    for k in range(4):
        bias, state = net.markov(previous[:, k], hidden[:, k], state)
        torch.testing.assert_close(bias, forced[:, k])
    for b in range(2):
        plain = PlainBlock(net).biases(previous[b].tolist(), rows(hidden[b]))
        np.testing.assert_allclose(rows(forced[b]), plain, **NEAR)


def test_a_new_markov_head_changes_nothing() -> None:
    net = BlockNet(random_net(markov="rnn", markov_rank=8).config)
    assert net.markov is not None
    assert not net.markov.out(net.markov.teacher_forced(torch.tensor([[1, 2]]), vectors(2, 1)[None])).any()


@pytest.mark.parametrize("heads", [{}, {"markov": "vanilla", "markov_rank": 8}])
def test_confidence(heads: dict[str, Any]) -> None:
    net = random_net(confidence=True, **heads)
    hidden, previous = vectors(3, 8), torch.tensor([5, 9, 5])
    plain = [PlainBlock(net).confidence(h, token) for h, token in zip(rows(hidden), previous.tolist(), strict=True)]
    np.testing.assert_allclose(net.confidence_logits(hidden, previous).detach().numpy(), plain, **NEAR)


def test_every_weight_is_trained() -> None:
    net = random_net(markov="gated", markov_rank=8, confidence=True, draft_vocab=(1, 2, 3))
    embedding, previous = vectors(20, 9), torch.tensor([[1, 2, 3, 1, 2, 3]])
    features = net.fuse(vectors(4, 10))
    contexts = [(k[None], v[None]) for k, v in net.context(features, torch.arange(4))]
    mask = torch.ones(1, 1, BLOCK, 4 + BLOCK, dtype=torch.bool)
    hidden = net.block(net.inputs(torch.tensor([3]), embedding), torch.arange(4, 4 + BLOCK)[None], contexts, mask)
    rows_before = net.draft_ids(previous)
    assert net.markov is not None
    biases = net.markov.out(net.markov.teacher_forced(rows_before, hidden))
    loss = biases.sum() + net.confidence_logits(hidden, rows_before).sum()
    (loss + hidden.sum()).backward()
    assert [name for name, weight in net.named_parameters() if weight.grad is None or not weight.grad.any()] == []
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in net.parameters())
