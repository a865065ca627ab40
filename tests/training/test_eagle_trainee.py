"""EagleTrainee: many rollouts at once are what each would be in drafting, and none sees what it must guess."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.harness.tiny import VOCAB_SIZE
from drafters.training.answers import Split
from drafters.training.assembly import make_trainee
from drafters.training.blocks import Batch, make_batch
from drafters.training.eagle_trainee import Eagle3Trainee, EagleTrainee
from drafters.training.features import TargetFeatures
from drafters.training.losses import LOSSES
from drafters.training.parallel_trainee import ParallelTrainee
from drafters.training.recipe import Recipe, make_recipe
from modeling.checkpoint_files import Checkpoint
from modeling.eagle_checkpoint import EAGLE_NETS
from modeling.eagle_net import EagleNet
from modeling.target import Target
from modeling.target_ends import TargetEnds, read_ends
from tests.training.runs import Bench

ANCHORS = ([6, 9, 20], [10])
STEPS = 4
KINDS: dict[str, dict[str, Any]] = {
    "eagle3": {"method": "eagle3", "layers": 1},
    "eagle3, two layers": {"method": "eagle3", "layers": 2},
    "fused": {"method": "p_eagle", "layers": 2, "slots": "fused"},
    "mask": {"method": "p_eagle", "layers": 2, "slots": "mask"},
    "mask, one layer": {"method": "p_eagle", "layers": 1, "slots": "mask"},
}


def own_recipe(recipe: Recipe, kind: str) -> Recipe:
    return replace(recipe, markov="none", **KINDS[kind])


@pytest.fixture(params=KINDS)
def trainee(request: pytest.FixtureRequest, recipe: Recipe, target: Target, split: Split) -> EagleTrainee:
    trainee = make_trainee(own_recipe(recipe, request.param), target, split, revision=None)
    assert isinstance(trainee, EagleTrainee)
    for name, parameter in trainee.named_parameters():
        torch.nn.init.normal_(parameter, mean=float("norm" in name), std=0.2)
    return trainee


@pytest.fixture
def batch(split: Split, target: Target, recipe: Recipe) -> Batch:
    source = TargetFeatures(target, (1, 2), law_size=recipe.law_size)
    examples = split.train[:2]
    anchors = [torch.tensor(places) for places in ANCHORS]
    return make_batch(examples, source(examples), anchors, predictions=STEPS)


def states(trainee: EagleTrainee, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        return trainee.states(batch)


def changed(trainee: EagleTrainee, batch: Batch, other: Batch) -> list[tuple[int, int, int]]:
    """Row, rollout and step of the predictions that differ; those that only fill up left out."""
    different = (states(trainee, batch) != states(trainee, other)).any(-1) & batch.valid
    return [tuple(place) for place in different.nonzero().tolist()]


def test_a_rollout_sees_the_features_before_its_anchor_only(trainee: EagleTrainee, batch: Batch) -> None:
    taps = batch.taps.float().requires_grad_()
    found = trainee.states(replace(batch, taps=taps))
    for row, places in enumerate(ANCHORS):
        for rollout, anchor in enumerate(places):
            for step in range(STEPS):
                (gradient,) = torch.autograd.grad(found[row, rollout, step].sum(), taps, retain_graph=True)
                touched = gradient.abs().sum(-1) > 0
                expected = torch.zeros_like(touched)
                expected[row, :anchor] = True
                assert torch.equal(touched, expected)


def test_a_rollout_sees_the_tokens_up_to_its_anchor_only(trainee: EagleTrainee, batch: Batch) -> None:
    """The first token has no element. The anchor itself reaches a rollout by its own way."""
    for position in range(batch.tokens.shape[1]):
        tokens = batch.tokens.clone()
        tokens[0, position] = (tokens[0, position] + 1) % 26
        reached = {rollout for _, rollout, _ in changed(trainee, batch, replace(batch, tokens=tokens))}
        assert reached == {i for i, anchor in enumerate(ANCHORS[0]) if 0 < position < anchor}


def test_a_rollout_does_not_see_others(trainee: EagleTrainee, batch: Batch) -> None:
    """What the second one is fed shows in no other one, and in none of its own steps before."""
    parallel = isinstance(trainee, ParallelTrainee)
    for step in range(STEPS):
        ids, previous = batch.anchor_ids.clone(), batch.previous.clone()
        previous[0, 1, step] = (previous[0, 1, step] + 1) % 26
        if step == 0:
            ids[0, 1] = previous[0, 1, 0]
        expected = [] if parallel and step > 0 else [(0, 1, later) for later in range(step, STEPS)]
        assert changed(trainee, batch, replace(batch, anchor_ids=ids, previous=previous)) == expected


def test_labels_reach_the_loss_alone(trainee: EagleTrainee, batch: Batch) -> None:
    other = replace(batch, labels=torch.zeros_like(batch.labels))
    assert changed(trainee, batch, other) == []
    assert torch.equal(trainee(batch).divergence, trainee(other).divergence)


def test_neighbours_and_padding_change_nothing(
    trainee: EagleTrainee, batch: Batch, split: Split, target: Target
) -> None:
    together = states(trainee, batch)
    source = TargetFeatures(target, (1, 2), law_size=batch.law_ids.shape[-1])
    for row, places in enumerate(ANCHORS):
        for rollout, anchor in enumerate(places):
            examples = [split.train[row]]
            single = make_batch(examples, source(examples), [torch.tensor([anchor])], predictions=STEPS)
            torch.testing.assert_close(states(trainee, single)[0, 0], together[row, rollout], atol=1e-4, rtol=1e-4)


def as_in_drafting(net: EagleNet, ends: TargetEnds, batch: Batch, rollout: int) -> torch.Tensor:
    """States [P, d] of a rollout of the first row: its text alone in one forward, then one step after the other, or all
    slots with it."""
    anchor, config = ANCHORS[0][rollout], net.config
    embeds = ends.embedding[batch.tokens[0, 1 : anchor + 1]][None]
    features = net.fusion(batch.taps[0, :anchor].unflatten(-1, (2, -1)).unbind(-2))[None]
    if config.slots != "none":
        slots = net.slot_inputs(features[:, -1], embeds[:, -1])
        embeds, features = (torch.cat(pair, dim=1) for pair in zip((embeds, features), slots, strict=True))
    count = embeds.shape[1]
    empty = torch.empty(1, config.num_kv_heads, 0, config.head_dim)
    causal = torch.ones(1, 1, count, count, dtype=torch.bool).tril()
    found, contexts = net(
        embeds, features, torch.arange(1, count + 1)[None], [(empty, empty)] * config.num_layers, causal
    )
    if config.slots != "none":
        return found[0, anchor - 1 :]
    read = [found[0, -1]]
    for k in range(1, STEPS):
        embed = ends.embedding[batch.previous[0, rollout, k]][None, None]
        everything = torch.ones(1, 1, 1, anchor + k, dtype=torch.bool)
        found, own = net(embed, found[:, -1:], torch.tensor([[anchor + k]]), contexts, everything)
        contexts = tuple(
            tuple(map(torch.cat, zip(*pair, strict=True), [2, 2])) for pair in zip(contexts, own, strict=True)
        )
        read.append(found[0, -1])
    return torch.stack(read)


def test_rollouts_are_those_of_drafting(trainee: EagleTrainee, batch: Batch, target: Target) -> None:
    ends, found = read_ends(Checkpoint(target.name)), states(trainee, batch)
    for rollout in range(len(ANCHORS[0])):
        with torch.no_grad():
            expected = as_in_drafting(trainee.net, ends, batch, rollout)
        torch.testing.assert_close(found[0, rollout], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("draft_vocab", [0, 24])
@pytest.mark.parametrize("kind", ["eagle3", "fused"])
def test_the_loss_by_hand(
    kind: str, draft_vocab: int, recipe: Recipe, target: Target, split: Split, batch: Batch
) -> None:
    """KL of the law's tokens one by one and of all others as one; the k-th counts 0.8^(k-1)."""
    trainee = make_trainee(replace(own_recipe(recipe, kind), draft_vocab=draft_vocab), target, split, revision=None)
    assert isinstance(trainee, EagleTrainee)
    net, head = trainee.net, read_ends(Checkpoint(target.name)).lm_head
    q = (
        net.normed(states(trainee, batch)) @ head[net.target_ids(torch.arange(net.config.draft_vocab_size))].T
    ).softmax(-1)
    loss = weight = 0.0
    for row in range(2):
        for rollout in range(len(ANCHORS[row])):
            for k in range(STEPS):
                if not batch.valid[row, rollout, k]:
                    continue
                law = zip(batch.law_ids[row, rollout, k], batch.law_probs[row, rollout, k].tolist(), strict=True)
                known = [
                    (p, q[row, rollout, k, i].item()) for v, p in law if (i := int(net.draft_ids(v))) < q.shape[-1]
                ]
                rest = 1 - sum(p for p, _ in known), 1 - sum(chance for _, chance in known)
                loss += 0.8**k * sum(p * math.log(p / chance) for p, chance in [*known, rest] if p > 0)
                weight += 0.8**k
                if net.draft_ids(batch.labels[row, rollout, k]) == q.shape[-1]:
                    break
    method = str(KINDS[kind]["method"])
    found = trainee(batch).weighted(LOSSES[method], make_recipe(method, {}).decay)
    assert [each.item() for each in found] == pytest.approx([loss, weight], rel=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["eagle3", "fused", "mask"])
def test_the_loss_falls_and_drafts_live_longer(
    kind: str, precision: str, recipe: Recipe, target: Target, split: Split, tmp_path: Path
) -> None:
    # The law of a random target is broad and has little to do with the answers: all of it must be seen to be learnt.
    own = {"draft_vocab": 0, "law_size": VOCAB_SIZE, "epochs": 12, "evaluate_every": 10, "precision": precision}
    recipe = replace(own_recipe(recipe, kind), **own)
    seen = Bench(target=target, split=split, recipe=recipe).train(tmp_path)
    losses = [step.loss for step in seen.steps]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    first, last = seen.looks[10], seen.looks[60]
    assert last.loss < first.loss
    assert last.expected_length > first.expected_length
    checkpoint = Checkpoint(str(tmp_path))
    net = EAGLE_NETS.load(checkpoint, EAGLE_NETS.read_config(checkpoint))
    assert net.config.slots == ("none" if kind == "eagle3" else kind)


def test_only_the_net_is_trained_and_saved(trainee: EagleTrainee, batch: Batch, target: Target) -> None:
    scores = trainee(batch)
    scores.divergence.sum().backward()
    assert {name.partition(".")[0] for name, _ in trainee.named_parameters()} == {"net"}
    assert [name for name, weight in trainee.named_parameters() if weight.grad is None or not weight.grad.any()] == []
    assert not any(tensor.shape[0] == target.vocab_size for tensor in trainee.net.state_dict().values())


def test_one_slot_is_one_step(recipe: Recipe, target: Target, split: Split) -> None:
    trainee = make_trainee(replace(own_recipe(recipe, "fused"), block_size=1), target, split, revision=None)
    assert isinstance(trainee, Eagle3Trainee)
    assert (trainee.num_predictions, trainee.net.config.num_slots) == (1, 1)


@pytest.mark.parametrize(
    ("method", "given", "said"),
    [
        ("eagle3", {"slots": "mask"}, "slots means nothing to eagle3"),
        ("p_eagle", {"slots": "none"}, "slots is 'none'; it must be one of fused, mask"),
        ("p_eagle", {"markov": "rnn"}, "markov means nothing to p_eagle"),
        ("dspark", {"block_size": 1}, "block_size is 1, but a block of dspark begins with the anchor"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(method: str, given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_recipe(method, given)
