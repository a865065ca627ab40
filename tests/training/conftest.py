"""A tiny target, answers it might have given, and what it shows of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig

from benchmarks.harness.tiny import VOCAB_SIZE, save_tiny
from drafters.training.answers import Example, Split
from drafters.training.features import TargetFeatures
from drafters.training.recipe import Recipe
from modeling.target import Target, TargetSpec, load_target

LAYERS = 5
MAX_LEN = 64


def deep_llama() -> LlamaConfig:
    """Deep enough that three layers can be tapped, and with large weights, so that its laws are not flat."""
    return LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=VOCAB_SIZE - 1,
        initializer_range=0.3,
    )


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("target"), deep_llama())


@pytest.fixture(scope="session")
def target(checkpoint: Path) -> Target:
    spec = TargetSpec(model=str(checkpoint), dtype="fp32", device="cpu", max_num_seqs=4, max_model_len=MAX_LEN)
    return load_target(spec)


@pytest.fixture(scope="session")
def split() -> Split:
    """Answers that count on in threes from any letter: easy to learn, and of different lengths."""
    texts = [[97 + (start + 3 * i) % 26 for i in range(30 + start % 7)] for start in range(26)]
    examples = [
        Example(tokens=tuple(text), prompt_len=4 + index % 3, domain=("even", "odd")[index % 2])
        for index, text in enumerate(texts)
    ]
    return Split(train=tuple(examples[:20]), held_out=tuple(examples[20:]))


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    return Recipe(
        method="dspark",
        layers=1,
        block_size=4,
        draft_vocab=24,
        markov_rank=8,
        batch=4,
        anchors=6,
        epochs=4,
        learning_rate=5e-3,
        law_size=16,
        max_length=MAX_LEN,
        evaluate_every=5,
        precision="fp32",
    )


@pytest.fixture(scope="session")
def source(target: Target) -> TargetFeatures:
    return TargetFeatures(target, (1, 2), law_size=16)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)
