"""Run: it learns, it can be stopped anywhere, and what it leaves behind is what it says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.harness.tiny import VOCAB_SIZE
from drafters.training.answers import Split
from drafters.training.losses import LOSSES, LossWeights
from drafters.training.ranks import Ranks
from drafters.training.recipe import Recipe, make_recipe
from drafters.training.run import Sitting
from drafters.training.sole_writer import sole_writer
from modeling.block_checkpoint import BLOCK_NETS
from modeling.checkpoint_files import Checkpoint
from modeling.target import Target
from tests.training.runs import Bench, same, state_of
from tests.training.two_ranks import train_on_two_ranks


@pytest.fixture(scope="module")
def bench(target: Target, split: Split, recipe: Recipe) -> Bench:
    return Bench(target=target, split=split, recipe=recipe)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("method", ["dflash", "dspark"])
def test_the_loss_falls_and_drafts_live_longer(bench: Bench, tmp_path: Path, method: str, precision: str) -> None:
    # The law of a random target is broad and has little to do with the answers: all of it must be seen to be learnt.
    own = {"markov": "none"} if method == "dflash" else {"draft_vocab": 0, "law_size": VOCAB_SIZE}
    recipe = replace(bench.recipe, method=method, precision=precision, epochs=12, evaluate_every=10, **own)
    seen = bench.train(tmp_path, recipe=recipe)
    losses = [step.loss for step in seen.steps]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    first, last = seen.looks[10], seen.looks[60]
    assert last.loss < first.loss
    assert last.accepted_length > first.accepted_length + 0.3
    if method == "dspark":
        assert last.expected_length > first.expected_length


def test_a_run_in_sittings_is_the_run_in_one(bench: Bench, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    bench.train(whole)
    sittings = [bench.train(parts, minutes=1e-9, resume=True) for _ in range(7)]
    assert [len(each.steps) for each in sittings] == [1] * 7
    rest = bench.train(parts, resume=True)
    assert (list(rest.looks), rest.all_looks) == ([10, 15, 20], [5, 10, 15, 20])
    a, b = state_of(whole), state_of(parts)
    for state in (a, b):
        assert state["past"].pop("seconds") > 0
    assert a["step"] == 20
    assert same(a, b)
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()


def test_a_run_is_not_overwritten_nor_resumed_as_another(bench: Bench, tmp_path: Path) -> None:
    bench.train(tmp_path, minutes=1e-9)
    with pytest.raises(ValueError, match="holds a training run"):
        bench.train(tmp_path)
    with pytest.raises(ValueError, match=r"learning_rate is 0\.1, but the run to resume began with 0\.005"):
        bench.train(tmp_path, recipe=replace(bench.recipe, learning_rate=0.1), resume=True)


def test_answers_are_the_same_by_their_hash(bench: Bench, tmp_path: Path) -> None:
    answers = {"file": "a.jsonl", "sha256": "ab" * 32, "count": 24}
    bench.train(tmp_path, minutes=1e-9, answers=answers)
    assert bench.train(tmp_path, minutes=1e-9, answers=answers | {"file": "b.jsonl"}, resume=True).begins == 1
    said = r"began with other answers \(24 of b.jsonl, sha256 abababababab\) than 24 of b.jsonl, sha256 cdcdcdcdcdcd"
    with pytest.raises(ValueError, match=said):
        bench.train(tmp_path, answers={"file": "b.jsonl", "sha256": "cd" * 32, "count": 24}, resume=True)


@pytest.mark.parametrize("damage", ["", "hello", "half", "list"])
def test_a_damaged_state_is_named(bench: Bench, tmp_path: Path, damage: str) -> None:
    bench.train(tmp_path, minutes=1e-9)
    file = tmp_path / "training.pt"
    whole = file.read_bytes()
    torch.save([1], file)
    kept = {"half": whole[: len(whole) // 2], "list": file.read_bytes()}
    file.write_bytes(kept.get(damage, damage.encode()))
    with pytest.raises(
        ValueError, match=r"training\.pt is damaged or holds no training run .* delete it to begin anew"
    ):
        bench.train(tmp_path, resume=True)


def test_a_run_of_another_version_is_not_resumed(bench: Bench, tmp_path: Path) -> None:
    bench.train(tmp_path, minutes=1e-9)
    state = state_of(tmp_path)
    torch.save(state | {"recipe": state["recipe"] | {"of_yore": 1}}, tmp_path / "training.pt")
    with pytest.raises(ValueError, match=r"of another version of paradraft .*of_yore"):
        bench.train(tmp_path, resume=True)


def test_the_best_look_is_published_with_its_provenance(bench: Bench, tmp_path: Path) -> None:
    seen = bench.train(tmp_path)
    checkpoint = Checkpoint(str(tmp_path))
    net = BLOCK_NETS.load(checkpoint, BLOCK_NETS.read_config(checkpoint))
    assert net.config.draft_vocab is not None
    assert len(net.config.draft_vocab) == 24
    about = json.loads((tmp_path / "provenance.json").read_text())
    lengths = [figures.accepted_length for figures in seen.looks.values()]
    assert sorted(seen.looks) == [5, 10, 15, 20]
    assert about["looks"][-1]["held_out"]["accepted_length"] == max(lengths)
    assert (about["command"], about["answers"], about["recipe"]["method"]) == ("test", "these", "dspark")
    assert about["parameters"] == sum(each.numel() for each in net.parameters())
    assert about["tokens_read"] == sum(step.tokens for step in seen.steps[: about["looks"][-1]["step"]])
    other = tmp_path / "other"
    other.touch()
    published = ("config.json", "model.safetensors", "provenance.json")
    assert {(tmp_path / name).stat().st_mode for name in published} == {other.stat().st_mode}


def test_a_finished_run_has_nothing_more_to_do(bench: Bench, tmp_path: Path) -> None:
    bench.train(tmp_path)
    seen = bench.train(tmp_path, resume=True)
    assert (seen.begins, seen.ends, seen.steps) == (20, 20, [])


def test_ranks_learn_what_one_process_learns(bench: Bench, tmp_path: Path) -> None:
    """The same run, its batches shared by two processes."""
    bench.train(tmp_path / "one")
    train_on_two_ranks(bench, tmp_path / "two")
    one, two = state_of(tmp_path / "one"), state_of(tmp_path / "two")
    assert one["past"]["tokens"] == two["past"]["tokens"]
    for name, weight in one["net"].items():
        if weight.is_floating_point():
            assert (weight - two["net"][name]).abs().max() < 0.02 * weight.abs().max() + 1e-3, name
    assert one["past"]["losses"] == pytest.approx(two["past"]["losses"], rel=0.02)


def test_a_loss_that_is_no_number_ends_the_run(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSES, "dspark", LossWeights(cross_entropy=float("inf"), distance=0.0, confidence=0.0))
    with pytest.raises(FloatingPointError, match=r"the loss is (inf|nan) at step 0; try a lower learning_rate"):
        bench.train(tmp_path)


def test_a_sitting_takes_time() -> None:
    with pytest.raises(ValueError, match="minutes is 0"):
        Sitting(minutes=0)


@pytest.mark.parametrize(
    ("method", "given", "said"),
    [
        ("eagle9", {}, "'eagle9' cannot be trained; there are: dflash, dspark, eagle3, p_eagle, draft_model"),
        ("dspark", {"layers": 0}, "layers is 0; it must be from 1 to 64"),
        ("dspark", {"markov": "hidden"}, "markov is 'hidden'; it must be one of none, vanilla, gated, rnn"),
        ("dspark", {"learning_rate": float("nan")}, "learning_rate is nan"),
        ("dflash", {"markov": "rnn"}, "dflash has no Markov head"),
        ("dspark", {"taps": 0}, "taps is 0, but dspark reads"),
        ("dspark", {"width": 64}, "width means nothing to dspark"),
        ("draft_model", {"draft_vocab": 64}, "draft_vocab means nothing to draft_model"),
        ("draft_model", {"width": 100}, "width is 100; a draft model's must be a multiple of 32"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(method: str, given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_recipe(method, given)


def test_methods_differ_where_they_should() -> None:
    assert make_recipe("dflash", {}).markov == "none"
    assert make_recipe("dspark", {"layers": 1}) == Recipe(method="dspark", layers=1)


def test_one_rank_alone_agrees_with_itself() -> None:
    for says in (True, False):
        assert Ranks().agreed(leader_says=says, device=torch.device("cpu")) is says


def test_two_runs_do_not_train_into_one_folder(bench: Bench, tmp_path: Path) -> None:
    with sole_writer(tmp_path), pytest.raises(ValueError, match="another process"):
        bench.train(tmp_path)
    assert list(tmp_path.iterdir()) == []
