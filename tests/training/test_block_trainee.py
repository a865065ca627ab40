"""BlockTrainee: many blocks at once are what each would be alone, and no block sees what it must guess."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from drafters.training.answers import Split
from drafters.training.assembly import make_trainee
from drafters.training.block_trainee import BlockTrainee
from drafters.training.blocks import Batch, make_batch
from drafters.training.features import TargetFeatures
from drafters.training.recipe import Markov, Recipe
from modeling.checkpoint_files import Checkpoint
from modeling.target import Target
from modeling.target_ends import read_ends

ANCHORS = ([6, 9, 20], [10])


@pytest.fixture(params=["vanilla", "gated", "rnn"])
def trainee(request: pytest.FixtureRequest, recipe: Recipe, target: Target, split: Split) -> BlockTrainee:
    markov: Markov = request.param
    trainee = make_trainee(replace(recipe, markov=markov, draft_vocab=0), target, split, revision=None)
    for parameter in trainee.parameters():  # heads start as zeros, behind which a fault could hide
        torch.nn.init.normal_(parameter, std=0.2)
    return trainee


@pytest.fixture
def batch(split: Split, target: Target, recipe: Recipe) -> Batch:
    source = TargetFeatures(target, (1, 2), law_size=recipe.law_size)
    examples = split.train[:2]
    anchors = [torch.tensor(places) for places in ANCHORS]
    return make_batch(examples, source(examples), anchors, predictions=recipe.block_size)


def distances(trainee: BlockTrainee, batch: Batch) -> torch.Tensor:
    distance: torch.Tensor = trainee(batch).distance.detach()
    return distance


def test_a_block_looks_at_the_context_before_its_anchor_only(trainee: BlockTrainee, batch: Batch) -> None:
    taps = batch.taps.float().requires_grad_()
    scores = trainee(replace(batch, taps=taps))
    for row, places in enumerate(ANCHORS):
        for block, anchor in enumerate(places):
            (gradient,) = torch.autograd.grad(scores.distance[row, block].sum(), taps, retain_graph=True)
            touched = gradient.abs().sum(-1) > 0
            expected = torch.zeros_like(touched)
            expected[row, :anchor] = True
            assert torch.equal(touched, expected)


def test_a_block_does_not_see_other_blocks(trainee: BlockTrainee, batch: Batch) -> None:
    before = distances(trainee, batch)
    other = batch.anchor_ids.clone()
    other[0, 1] = (other[0, 1] + 1) % 26
    after = distances(trainee, replace(batch, anchor_ids=other))
    changed = (before != after).any(-1)
    assert changed.tolist() == [[False, True, False], [False, False, False]]


def test_a_prediction_does_not_see_its_label(trainee: BlockTrainee, batch: Batch) -> None:
    """The token before comes by teacher forcing, so a changed token may only show one place later."""
    before = trainee(batch).confidence.detach()
    previous = batch.previous.clone()
    previous[0, 0, 2] = 97 + (previous[0, 0, 2] - 96) % 26
    after = trainee(replace(batch, previous=previous)).confidence.detach()
    labels = torch.zeros_like(batch.labels)
    assert torch.equal(before[0, 0, :2], after[0, 0, :2])
    assert not torch.equal(distances(trainee, batch), distances(trainee, replace(batch, previous=previous)))
    relabelled = trainee(replace(batch, labels=labels))
    assert torch.equal(distances(trainee, batch), relabelled.distance.detach())


def test_neighbours_and_padding_change_nothing(
    trainee: BlockTrainee, batch: Batch, split: Split, target: Target
) -> None:
    together = distances(trainee, batch)
    source = TargetFeatures(target, (1, 2), law_size=batch.law_ids.shape[-1])
    for row, places in enumerate(ANCHORS):
        for block, anchor in enumerate(places):
            examples = [split.train[row]]
            single = make_batch(examples, source(examples), [torch.tensor([anchor])], predictions=4)
            alone = distances(trainee, single)[0, 0]
            torch.testing.assert_close(alone, together[row, block], atol=1e-4, rtol=1e-4)


def test_one_block_by_the_nets_own_steps(recipe: Recipe, target: Target, split: Split, batch: Batch) -> None:
    """As inference does it: one block, one token after the other, through the Markov head."""
    trainee = make_trainee(replace(recipe, markov="rnn", draft_vocab=26), target, split, revision=None)
    torch.nn.init.normal_(trainee.net.markov.out.weight, std=0.2)
    net, ends, anchor = trainee.net, read_ends(Checkpoint(target.name)), ANCHORS[0][1]
    with torch.no_grad():
        features = net.fuse(batch.taps[:1, :anchor].float())
        contexts = net.context(features, torch.arange(anchor)[None])
        embeds = net.inputs(batch.anchor_ids[0, 1][None], ends.embedding)
        sees_all = torch.ones(1, 1, 4, anchor + 4, dtype=torch.bool)
        hidden = net.block(embeds, anchor + torch.arange(4)[None], contexts, sees_all)
        state, entropies = None, []
        for k in range(4):
            previous = net.draft_ids(batch.previous[0, 1, k])
            bias, state = net.markov(previous[None], hidden[:, k], state)
            log_q = (hidden[:, k] @ ends.lm_head[net.d2t].T + bias).log_softmax(-1)
            entropies.append(-log_q[0, net.draft_ids(batch.labels[0, 1, k])])
        torch.testing.assert_close(torch.stack(entropies), trainee(batch).cross_entropy[0, 1], atol=1e-4, rtol=1e-4)


def test_only_the_net_is_trained_and_saved(recipe: Recipe, target: Target, split: Split) -> None:
    trainee = make_trainee(recipe, target, split, revision=None)
    assert {name.partition(".")[0] for name, _ in trainee.named_parameters()} == {"net"}
    assert not any(tensor.shape[0] == target.vocab_size for tensor in trainee.net.state_dict().values())


def test_answers_of_a_larger_vocabulary_are_refused(recipe: Recipe, target: Target, split: Split) -> None:
    foreign = replace(split.train[0], tokens=(*split.train[0].tokens, target.vocab_size))
    with pytest.raises(ValueError, match="token id 258, but the target's vocabulary ends at 257"):
        make_trainee(recipe, target, replace(split, train=(foreign,)), revision=None)
