"""Features: what the target's own forward says, kept on disk without change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from drafters.training.answers import Example, Split
from drafters.training.feature_store import FeatureStore
from drafters.training.features import Features, TargetFeatures, feature_layers, law
from modeling.target import Target
from modeling.work import Work


class Counting(TargetFeatures):
    """Counts what the target is asked for."""

    asked = 0

    def __call__(self, examples: Sequence[Example]) -> list[Features]:
        self.asked += len(examples)
        return super().__call__(examples)


def equal(a: Features, b: Features) -> bool:
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in ("taps", "law_ids", "law_probs"))


def test_rows_are_those_of_the_whole_text(target: Target, source: TargetFeatures, split: Split) -> None:
    examples = split.train[:6]  # more than the target has slots
    found = source(examples)
    assert len(found) == 6
    for example, features in zip(examples, found, strict=True):
        work = Work(slot=0, start=0, tokens=example.tokens, num_logits=len(example.tokens))
        whole = target.runner.forward([work], taps=(1, 2))
        torch.testing.assert_close(
            features.taps.float(), torch.cat(whole.taps, dim=-1)[:-1].to(torch.bfloat16).float(), atol=0.02, rtol=0.02
        )
        law_of_next = whole.logits.float().softmax(-1)
        for i in range(len(example.tokens) - 1 - example.prompt_len):
            expected = law_of_next[example.prompt_len + i][features.law_ids[i].long()]
            torch.testing.assert_close(features.law_probs[i].float(), expected, atol=2e-3, rtol=2e-3)
        assert len(features.law_ids) == len(example.tokens) - 1 - example.prompt_len


def test_what_comes_out_may_enter_a_computation_with_gradients(source: TargetFeatures, split: Split) -> None:
    (features,) = source(split.train[:1])
    weight = torch.ones(features.taps.shape[-1], requires_grad=True)
    (features.taps.float() * weight).sum().backward()
    assert weight.grad is not None


def test_a_law_is_the_likeliest_tokens_with_their_share_of_everything() -> None:
    ids, probs = law(torch.tensor([[0.0, 3.0, 1.0, 2.0]]), 2)
    whole = torch.tensor([0.0, 3.0, 1.0, 2.0]).softmax(-1)
    assert ids.tolist() == [[1, 3]]
    torch.testing.assert_close(probs.float()[0], whole[[1, 3]], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("layers", "count", "expected"),
    [
        (36, 5, (1, 9, 17, 25, 33)),  # as the published checkpoints have it
        (40, 5, (1, 10, 19, 28, 37)),
        (30, 3, (1, 14, 27)),
        (30, 1, (27,)),
        (5, 3, (1, 2)),
        (2, 3, (1,)),
        (1, 3, (0,)),
    ],
)
def test_layers_are_spread(layers: int, count: int, expected: tuple[int, ...]) -> None:
    assert feature_layers(layers, count) == expected


def test_kept_features_are_the_same_and_asked_for_once(target: Target, split: Split, tmp_path: Path) -> None:
    source = Counting(target, (1, 2), law_size=16)
    first = FeatureStore(tmp_path, source)(split.train[:3])
    assert source.asked == 3
    again = FeatureStore(tmp_path, source)(split.train[1:4])
    assert source.asked == 4
    assert equal(again[0], first[1])
    assert equal(again[1], first[2])
    assert equal(again[2], source(split.train[3:4])[0])


def test_kept_features_of_something_else_are_refused(target: Target, tmp_path: Path) -> None:
    FeatureStore(tmp_path, TargetFeatures(target, (1, 2), law_size=16))
    with pytest.raises(ValueError, match=r"layers is \[1, 2\] there, here it is \[2\]"):
        FeatureStore(tmp_path, TargetFeatures(target, (2,), law_size=16))


def test_a_damaged_file_is_named(target: Target, split: Split, tmp_path: Path) -> None:
    source = TargetFeatures(target, (1, 2), law_size=16)
    FeatureStore(tmp_path, source)(split.train[:1])
    (file,) = tmp_path.rglob("*.safetensors")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=f"{file.name} are damaged"):
        FeatureStore(tmp_path, source)(split.train[:1])


@pytest.mark.parametrize("kept", ["rows", "names"])
def test_a_file_of_other_contents_is_named(target: Target, split: Split, tmp_path: Path, kept: str) -> None:
    source = TargetFeatures(target, (1, 2), law_size=16)
    FeatureStore(tmp_path, source)(split.train[:1])
    (file,) = tmp_path.rglob("*.safetensors")
    tensors = load_file(file)
    save_file(tensors | {"taps": tensors["taps"][1:]} if kept == "rows" else {"taps": tensors["taps"]}, file)
    with pytest.raises(ValueError, match=f"{file.name} are damaged"):
        FeatureStore(tmp_path, source)(split.train[:1])


@pytest.mark.parametrize("about", ["", "[1]"])
def test_a_folder_that_does_not_say_what_it_is_of(target: Target, tmp_path: Path, about: str) -> None:
    (tmp_path / "features.json").write_text(about)
    with pytest.raises(ValueError, match=r"features\.json does not say"):
        FeatureStore(tmp_path, TargetFeatures(target, (1, 2), law_size=16))
