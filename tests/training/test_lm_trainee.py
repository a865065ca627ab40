"""LmTrainee: scores of a plain causal LM, a loss that falls, and weights that the drafter `draft_model` reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

from benchmarks.harness.tiny import VOCAB_SIZE
from drafters.context import DrafterContext
from drafters.registry import build_drafter, parse_config
from drafters.training.answers import Split
from drafters.training.assembly import make_trainee
from drafters.training.blocks import Batch, make_batch
from drafters.training.feature_store import FeatureStore
from drafters.training.features import TargetFeatures
from drafters.training.lm_trainee import LmTrainee, projected
from drafters.training.recipe import Recipe, make_recipe
from modeling.checkpoint_files import Checkpoint
from modeling.target import Target
from modeling.target_ends import read_ends
from tests.fakes.queries import query
from tests.training.conftest import MAX_LEN
from tests.training.runs import Bench, same, state_of

ANCHORS = ([6, 8, 20], [10])  # the first two share places


@pytest.fixture(scope="session")
def recipe(recipe: Recipe) -> Recipe:
    """Of a draft model, else like those of the others."""
    own = {"taps": 0, "draft_vocab": 0, "markov": "none", "width": 64, "law_size": VOCAB_SIZE}
    return replace(recipe, method="draft_model", **own)


@pytest.fixture
def trainee(recipe: Recipe, target: Target, split: Split) -> LmTrainee:
    trainee = make_trainee(recipe, target, split, revision=None)
    assert isinstance(trainee, LmTrainee)
    return trainee


@pytest.fixture
def batch(split: Split, target: Target, recipe: Recipe) -> Batch:
    examples = split.train[:2]
    features = TargetFeatures(target, (), law_size=recipe.law_size)(examples)
    return make_batch(examples, features, [torch.tensor(places) for places in ANCHORS], predictions=recipe.block_size)


def test_scores_are_those_of_each_text_read_alone(trainee: LmTrainee, batch: Batch, split: Split) -> None:
    scores = trainee(batch)
    for row, places in enumerate(ANCHORS):
        tokens = torch.tensor([split.train[row].tokens])
        log_q = trainee.net(input_ids=tokens).logits[0].log_softmax(-1)
        for block, anchor in enumerate(places):
            for k in range(4):
                q, at = log_q[anchor + k], (row, block, k)
                label = split.train[row].tokens[anchor + k + 1]
                p = torch.zeros(VOCAB_SIZE).scatter_(0, batch.law_ids[at], batch.law_probs[at])
                torch.testing.assert_close(scores.cross_entropy[at], -q[label], atol=1e-4, rtol=1e-4)
                torch.testing.assert_close(scores.distance[at], (q.exp() - p).abs().sum(), atol=2e-3, rtol=1e-3)
                divergence = (torch.xlogy(p, p) - p * q).sum()
                torch.testing.assert_close(scores.divergence[at], divergence, atol=2e-2, rtol=1e-2)
                assert scores.hit[at] == (q.argmax() == label)
    assert scores.counts.tolist() == batch.valid.tolist()
    assert not scores.counts[1, 1:].any()


def test_a_place_in_two_blocks_pulls_twice(trainee: LmTrainee, batch: Batch, split: Split) -> None:
    """Gradients are those of the sum over all predictions, though each place is computed once."""
    (trainee(batch).cross_entropy * batch.valid).sum().backward()
    ours = {name: each.grad for name, each in trainee.net.named_parameters()}
    trainee.net.zero_grad()
    loss = torch.zeros(())
    for row, places in enumerate(ANCHORS):
        tokens = torch.tensor(split.train[row].tokens)
        log_q = trainee.net(input_ids=tokens[None]).logits[0].log_softmax(-1)
        for at in (anchor + k for anchor in places for k in range(4)):
            loss = loss - log_q[at, tokens[at + 1]]
    loss.backward()
    for name, each in trainee.net.named_parameters():
        torch.testing.assert_close(ours[name], each.grad, atol=1e-3, rtol=1e-3, msg=name)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_loss_falls_and_the_published_folder_drafts(
    recipe: Recipe, target: Target, split: Split, tmp_path: Path, precision: str
) -> None:
    learning = replace(recipe, precision=precision, epochs=16, evaluate_every=10)
    seen = Bench(target=target, split=split, recipe=learning).train(tmp_path)
    losses = [step.loss for step in seen.steps]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    assert seen.looks[80].accepted_length > seen.looks[10].accepted_length + 0.3
    assert {each.dtype for each in load_file(tmp_path / "model.safetensors").values()} == {torch.bfloat16}

    context = DrafterContext(
        target=target.name,
        vocab_size=target.vocab_size,
        max_num_seqs=1,
        max_model_len=MAX_LEN,
        device="cpu",
        dtype="fp32",
        threads=1,
    )
    config = parse_config({"method": "draft_model", "model": str(tmp_path), "num_speculative_tokens": 4})
    text = torch.tensor([split.held_out[0].tokens[:16]])
    (chunk,) = build_drafter(config, context).draft([query(text[0].tolist())])
    published = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert chunk.tokens == tuple(published.generate(text, max_new_tokens=4, do_sample=False)[0, 16:].tolist())


def test_a_run_in_sittings_is_the_run_in_one(recipe: Recipe, target: Target, split: Split, tmp_path: Path) -> None:
    bench = Bench(target=target, split=split, recipe=recipe)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    bench.train(whole)
    for _ in range(3):
        bench.train(parts, minutes=1e-9, resume=True)
    bench.train(parts, resume=True)
    assert state_of(parts)["step"] == 20
    assert same(state_of(whole)["net"], state_of(parts)["net"])


def test_features_kept_for_another_drafter_will_do(
    recipe: Recipe, target: Target, split: Split, tmp_path: Path
) -> None:
    trainee = make_trainee(replace(recipe, taps=3), target, split, revision=None)
    without = make_trainee(recipe, target, split, revision=None)
    assert (trainee.feature_layers, without.feature_layers) == ((1, 2), ())
    for each, folder in ((trainee, tmp_path / "with"), (without, tmp_path / "without")):
        source = FeatureStore(folder, TargetFeatures(target, each.feature_layers, law_size=16))
        source(split.train[:1])
        (kept,) = source(split.train[:1])
        batch = make_batch(split.train[:1], [kept], [torch.tensor([6])], predictions=4)
        scores = each(batch)
        assert scores.distance.shape == (1, 1, 4)
    assert torch.equal(scores.distance, trainee(batch).distance)


def test_the_first_embedding_keeps_what_tells_tokens_apart(target: Target) -> None:
    table = read_ends(Checkpoint(target.name)).lm_head
    rows = projected(table, 64)
    centred = table - table.mean(dim=0)
    torch.testing.assert_close(
        torch.cdist(rows, rows) * centred.std(), torch.cdist(centred, centred), atol=1e-2, rtol=1e-2
    )
    few = projected(table, 32)
    assert few.std() == pytest.approx(1, abs=1e-4)
    assert (few.T @ few).fill_diagonal_(0).abs().max() < 1e-2 * (few.T @ few).diagonal().min()
    with pytest.raises(ValueError, match="width is 96, but the target's own is 64"):
        projected(table, 96)


def test_the_default_fits_what_may_be_shipped() -> None:
    recipe = make_recipe("draft_model", {})
    per_layer = 4 * recipe.width**2 + 3 * recipe.width * 512 + 2 * recipe.width
    assert 49_152 * recipe.width + recipe.layers * per_layer + recipe.width <= 11_500_000
