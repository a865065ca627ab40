"""Published block nets through the drafters: their drafts are those of the published tensors, and the text stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from benchmarks.harness.tiny import VOCAB_SIZE
from drafters.block_config import DSparkConfig
from drafters.block_model import load_block_model
from modeling.checkpoint_files import WEIGHTS, Checkpoint
from modeling.target_ends import read_ends
from tests.drafters.block_drafters import build
from tests.drafters.featured import context, featured, features_of
from tests.drafters.published import TEXT, assert_text_stays, save_deep
from tests.fakes.queries import query
from tests.modeling.published_blocks import (
    DEEPSPEC,
    SPECULATORS,
    SPECULATORS_DSPARK,
    Z_LAB,
    PlainPublishedBlock,
    publish_block,
)

PUBLISHED = [
    pytest.param("dflash", Z_LAB, {}, id="z_lab"),
    pytest.param("dspark", DEEPSPEC, {}, id="deepspec"),
    pytest.param("dspark", DEEPSPEC, {"markov_head_type": "rnn"}, id="deepspec-rnn"),
    pytest.param("dflash", SPECULATORS, {}, id="speculators-dflash"),
    pytest.param("dspark", SPECULATORS_DSPARK, {"markov_head_type": "gated"}, id="speculators-dspark"),
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_deep(tmp_path_factory.mktemp("target"))


@pytest.mark.parametrize(("method", "config", "changes"), PUBLISHED)
def test_drafts_are_those_of_the_published_tensors(
    tmp_path: Path, target: Path, method: str, config: dict[str, Any], changes: dict[str, Any]
) -> None:
    folder, tensors = publish_block(tmp_path, config, **changes)
    ends = read_ends(Checkpoint(str(target)), torch.float32)
    plain = PlainPublishedBlock(tensors, ends.embedding, ends.lm_head)
    first = 0 if method == "dspark" else 1
    wanted, _ = plain.drafted(TEXT[-1], list(features_of(TEXT[:-1]).double().numpy()), first=first)
    drafter = build(method, folder, target, num_speculative_tokens=len(wanted))
    (chunk,) = drafter.draft([featured(query(TEXT, budget=len(wanted)))])
    assert list(chunk.tokens) == wanted


@pytest.mark.parametrize(("method", "config", "changes"), PUBLISHED)
def test_the_text_is_that_of_plain_decoding(
    tmp_path: Path, target: Path, method: str, config: dict[str, Any], changes: dict[str, Any]
) -> None:
    folder, _ = publish_block(tmp_path, config, **changes)
    assert_text_stays(method, folder, target)


def test_copies_of_the_target_s_ends_are_given_up(tmp_path: Path, target: Path) -> None:
    folder, tensors = publish_block(tmp_path, DEEPSPEC)
    ends = read_ends(Checkpoint(str(target)), torch.float32)
    config = DSparkConfig(model=str(folder), num_speculative_tokens=5)
    own = load_block_model(config, context(target))
    assert torch.equal(own.embedding, tensors["embed_tokens.weight"])
    copies = {"embed_tokens.weight": ends.embedding, "lm_head.weight": ends.lm_head.clone()}
    save_file(tensors | copies, folder / WEIGHTS)
    model = load_block_model(config, context(target, embedding=ends.embedding, lm_head=ends.lm_head))
    assert model.net.embedding is None
    assert model.net.lm_head is None
    assert model.embedding is ends.embedding
    assert torch.equal(model.head(torch.eye(32)), ends.lm_head.T)
    assert model.head(torch.eye(32)).shape == (32, VOCAB_SIZE)
