"""The EAGLE net against a plain computation of the same maths: whole texts, in pieces, step by step, and in slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from modeling.draft_attention import KeysValues
from modeling.eagle_net import EagleNet
from tests.fakes.eagle_nets import EAGLE_31, TINY, random_net
from tests.modeling.plain_eagle import PlainEagle, Vector

D = TINY.hidden_size
NEAR = {"rtol": 1e-4, "atol": 1e-4}


def vectors(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, D, generator=torch.Generator().manual_seed(seed))


def rows(x: torch.Tensor) -> list[Vector]:
    return list(x.detach().double().numpy())


def nothing(net: EagleNet, batch: int = 1) -> list[KeysValues]:
    """Contexts of no elements."""
    config = net.config
    empty = torch.empty(batch, config.num_kv_heads, 0, config.head_dim)
    return [(empty, empty)] * config.num_layers


def causal(count: int, before: int = 0) -> torch.Tensor:
    return torch.ones(count, before + count, dtype=torch.bool).tril(before)[None, None]


def joined(before: list[KeysValues], own: tuple[KeysValues, ...]) -> list[KeysValues]:
    return [(torch.cat((a, c), dim=2), torch.cat((b, d), dim=2)) for (a, b), (c, d) in zip(before, own, strict=True)]


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("changes", [{}, EAGLE_31, {"num_kv_heads": 4}])
def test_elements_of_a_text(changes: dict[str, Any], layers: int) -> None:
    net = random_net(num_layers=layers, **changes)
    embeds, features, positions = vectors(6, 1), vectors(6, 2), torch.arange(1, 7)
    states, _ = net(embeds[None], features[None], positions[None], nothing(net), causal(6))
    plain = PlainEagle(net)
    expected = plain.elements(rows(embeds), rows(features), positions.tolist())
    np.testing.assert_allclose(rows(states[0]), expected, **NEAR)
    np.testing.assert_allclose(rows(net.normed(states)[0]), [plain.normed(state) for state in expected], **NEAR)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_text_in_pieces_is_the_whole_one(layers: int) -> None:
    """Each piece leaves keys and values behind; `context` leaves the same."""
    net = random_net(num_layers=layers)
    embeds, features, positions = vectors(9, 3)[None], vectors(9, 4)[None], torch.arange(1, 10)[None]
    whole, of_whole = net(embeds, features, positions, nothing(net), causal(9))
    contexts, states = nothing(net), []
    for a, b in ((0, 4), (4, 5), (5, 9)):
        piece = embeds[:, a:b], features[:, a:b], positions[:, a:b], contexts, causal(b - a, a)
        state, own = net(*piece)
        for alone, with_states in zip(net.context(*piece), own, strict=True):
            torch.testing.assert_close(alone, with_states)
        states.append(state)
        contexts = joined(contexts, own)
    torch.testing.assert_close(torch.cat(states, dim=1), whole, **NEAR)
    for layer, context in zip(of_whole, contexts, strict=True):
        torch.testing.assert_close(context, layer, **NEAR)


def test_texts_of_a_batch_see_only_themselves() -> None:
    """Contexts of different lengths, padded with what must not matter, before one element of each text."""
    net, lengths = random_net(), (3, 6, 0)
    texts = [(vectors(length + 1, i), vectors(length + 1, 10 + i)) for i, length in enumerate(lengths)]
    embeds, features = torch.full((3, 6, D), 5.0), torch.full((3, 6, D), -5.0)
    for row, (length, (own_embeds, own_features)) in enumerate(zip(lengths, texts, strict=True)):
        embeds[row, :length], features[row, :length] = own_embeds[:-1], own_features[:-1]
    everywhere = torch.arange(1, 7).expand(3, 6)
    contexts = net.context(embeds, features, everywhere, nothing(net, 3), causal(6).expand(3, -1, -1, -1))
    seen = torch.cat((torch.arange(6) < torch.tensor(lengths)[:, None], torch.ones(3, 1, dtype=torch.bool)), dim=1)
    last = [torch.stack([text[part][-1:] for text in texts]) for part in (0, 1)]
    states, _ = net(*last, torch.tensor(lengths)[:, None] + 1, contexts, seen[:, None, None])
    for row, (own_embeds, own_features) in enumerate(texts):
        expected = PlainEagle(net).elements(rows(own_embeds), rows(own_features), range(1, len(own_embeds) + 1))
        np.testing.assert_allclose(rows(states[row])[0], expected[-1], **NEAR)


def test_rollouts_that_share_a_context() -> None:
    """As in training: two of two elements each, the first after three elements of the context, the other after five."""
    net = random_net()
    embeds, features, positions = vectors(10, 1), vectors(10, 2), [1, 2, 3, 4, 5, 6, 4, 5, 6, 7]
    limits, rollout = [3, 3, 5, 5], [0, 0, 1, 1]

    def sees(query: int, key: int) -> bool:
        if query < 6:
            return key <= query
        return key < limits[query - 6] if key < 6 else rollout[query - 6] == rollout[key - 6] and key <= query

    mask = torch.tensor([[sees(query, key) for key in range(10)] for query in range(10)])[None, None]
    parts = embeds[None], features[None], torch.tensor(positions)[None]
    contexts = net.context(*(part[:, :6] for part in parts), nothing(net), mask[..., :6, :6])
    states, _ = net(*(part[:, 6:] for part in parts), contexts, mask[..., 6:, :])
    expected = PlainEagle(net).elements(rows(embeds), rows(features), positions, sees)
    np.testing.assert_allclose(rows(states[0]), expected[6:], **NEAR)


@pytest.mark.parametrize("changes", [{}, EAGLE_31])
def test_a_rollout_feeds_its_own_states(changes: dict[str, Any]) -> None:
    net = random_net(**changes)
    embeds, features, drafted = vectors(4, 5), vectors(4, 6), vectors(3, 7)
    states, own = net(embeds[None], features[None], torch.arange(1, 5)[None], nothing(net), causal(4))
    contexts, state, read = joined(nothing(net), own), states[:, -1:], [net.normed(states[0, -1])]
    for step, embed in enumerate(drafted):
        position = torch.tensor([[5 + step]])
        state, own = net(embed[None, None], state, position, contexts, causal(1, 4 + step))
        contexts = joined(contexts, own)
        read.append(net.normed(state[0, 0]))
    expected = PlainEagle(net).rollout(rows(embeds), rows(features), rows(drafted))
    np.testing.assert_allclose(rows(torch.stack(read)), expected, **NEAR)


@pytest.mark.parametrize("slots", ["fused", "mask"])
def test_slots_of_one_forward(slots: str) -> None:
    net = random_net(slots=slots, num_slots=4)
    embeds, features = vectors(5, 8), vectors(5, 9)
    slot_embeds, slot_hidden = net.slot_inputs(features[-1], embeds[-1])
    assert slot_embeds.shape == slot_hidden.shape == (3, D)
    together = torch.cat((embeds, slot_embeds))[None], torch.cat((features, slot_hidden))[None]
    states, _ = net(*together, torch.arange(1, 9)[None], nothing(net), causal(8))
    plain = PlainEagle(net)
    plain_embeds, plain_hidden = plain.slot_inputs(rows(features)[-1], rows(embeds)[-1])
    expected = plain.elements([*rows(embeds), *plain_embeds], [*rows(features), *plain_hidden], range(1, 9))
    np.testing.assert_allclose(rows(states[0]), expected, **NEAR)


@pytest.mark.parametrize("slots", ["fused", "mask"])
def test_slots_of_a_batch(slots: str) -> None:
    net = random_net(slots=slots, num_slots=3)
    features, embeds = vectors(2, 1), vectors(2, 2)
    for many, alone in zip(net.slot_inputs(features, embeds), net.slot_inputs(features[1], embeds[1]), strict=True):
        assert many.shape == (2, 2, D)
        torch.testing.assert_close(many[1], alone)


@pytest.mark.parametrize("changes", [{}, EAGLE_31])
def test_fusion(changes: dict[str, Any]) -> None:
    net = random_net(feature_layers=(0, 3, 5), **changes)
    taps = [vectors(4, i) for i in range(3)]
    plain = [PlainEagle(net).fuse(row) for row in zip(*map(rows, taps), strict=True)]
    np.testing.assert_allclose(rows(net.fusion(taps)), plain, **NEAR)
    assert (net.fusion.layers, net.fusion.width) == ((0, 3, 5), D)


@pytest.mark.parametrize("slots", ["none", "fused", "mask"])
def test_every_weight_is_trained(slots: str) -> None:
    net = random_net(slots=slots, num_slots=1 if slots == "none" else 3, own_head=True, draft_vocab=(1, 2), **EAGLE_31)
    embeds, hidden = vectors(4, 1)[None], net.fusion([vectors(4, 2), vectors(4, 3)])[None]
    if slots != "none":
        more = net.slot_inputs(hidden[:, -1], embeds[:, -1])
        embeds, hidden = (torch.cat(pair, dim=1) for pair in zip((embeds, hidden), more, strict=True))
    count = embeds.shape[1]
    states, _ = net(embeds, hidden, torch.arange(1, count + 1)[None], nothing(net), causal(count))
    assert net.lm_head is not None
    net.lm_head(net.normed(states)).square().sum().backward()
    assert [name for name, weight in net.named_parameters() if weight.grad is None or not weight.grad.any()] == []
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in net.parameters())
