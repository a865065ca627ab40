"""Published block nets: loaded by their own names, they draft what their own tensors say, or are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.harness.tiny import VOCAB_SIZE
from modeling.block_checkpoint import BLOCK_NETS
from modeling.block_net import BlockNet
from modeling.checkpoint_files import Checkpoint
from tests.modeling.published import HIDDEN
from tests.modeling.published_blocks import (
    DEEPSPEC,
    IDS,
    LLAMA3,
    MASK,
    SPECULATORS,
    SPECULATORS_DSPARK,
    Z_LAB,
    PlainPublishedBlock,
    publish_block,
)

FULL = {"draft_vocab_size": VOCAB_SIZE}
PLAIN_HEADS = {"markov_rank": 0, "enable_confidence_head": False}
NO_MARKOV = {"markov_rank": 0, "confidence_head_with_markov": False}

PUBLISHED = [
    pytest.param(Z_LAB, {}, id="z_lab"),
    pytest.param(Z_LAB | {"model_type": "llama"}, {"rope_scaling": LLAMA3}, id="z_lab-llama3"),
    pytest.param(DEEPSPEC, PLAIN_HEADS, id="deepspec-dflash"),
    *(
        pytest.param(DEEPSPEC, {"markov_head_type": kind}, id=f"deepspec-{kind}")
        for kind in ("vanilla", "gated", "rnn")
    ),
    pytest.param(DEEPSPEC, NO_MARKOV, id="deepspec-confidence"),
    pytest.param(SPECULATORS, {}, id="speculators-dflash"),
    pytest.param(SPECULATORS, FULL | {"sample_from_anchor": True}, id="speculators-dflash-anchor"),
    *(
        pytest.param(SPECULATORS_DSPARK, {"markov_head_type": kind}, id=f"speculators-{kind}")
        for kind in ("vanilla", "gated", "rnn")
    ),
    pytest.param(SPECULATORS_DSPARK, {"sample_from_anchor": False}, id="speculators-dspark-masks"),
    pytest.param(SPECULATORS_DSPARK, FULL, id="speculators-dspark-whole"),
]


def read(folder: Path) -> Any:
    return BLOCK_NETS.read_config(Checkpoint(str(folder)))


def load(folder: Path) -> BlockNet:
    return BLOCK_NETS.load(Checkpoint(str(folder)), read(folder)).double().eval()


@torch.inference_mode()
def drafted(net: BlockNet, anchor: int, taps: torch.Tensor, ends: torch.Tensor) -> tuple[list[int], list[float]]:
    """Greedy tokens and confidence logits. taps: [n, 2 * d]."""
    embedding = ends if net.embedding is None else net.embedding
    features = net.fuse(taps)
    contexts = [(k[None], v[None]) for k, v in net.context(features, torch.arange(len(taps)))]
    size = net.config.block_size
    mask = torch.ones(1, 1, size, len(taps) + size, dtype=torch.bool)
    places = len(taps) + torch.arange(size)[None]
    hidden = net.block(net.inputs(torch.tensor([anchor]), embedding), places, contexts, mask)[0]
    tokens, confidences, state, before = [], [], None, net.draft_ids(torch.tensor([anchor]))
    for h in hidden[net.config.first_prediction :]:
        logits = ends @ h if net.lm_head is None else net.lm_head(h)
        if net.markov is not None:
            bias, state = net.markov(before, h[None], state)
            logits = logits + bias[0]
        confidences.append(0.0 if net.confidence is None else float(net.confidence_logits(h[None], before)))
        before = logits.argmax()[None]
        tokens.append(int(net.target_ids(before)))
    return tokens, confidences


@pytest.mark.parametrize("anchor", [IDS[2], IDS[2] + 1], ids=["drafted", "undrafted"])
@pytest.mark.parametrize(("config", "changes"), PUBLISHED)
def test_drafts_are_those_of_the_published_tensors(
    tmp_path: Path, config: dict[str, Any], changes: dict[str, Any], anchor: int
) -> None:
    folder, tensors = publish_block(tmp_path, config, **changes)
    generator = torch.Generator().manual_seed(5)
    ends = torch.randn(VOCAB_SIZE, HIDDEN, generator=generator, dtype=torch.float64)
    taps = torch.randn(7, 2 * HIDDEN, generator=generator, dtype=torch.float64)
    net, plain = load(folder), PlainPublishedBlock(tensors, ends, ends, changes.get("rope_scaling"))
    features = [plain.feature(np.split(tap.numpy(), 2)) for tap in taps]
    np.testing.assert_allclose(net.fuse(taps).detach().numpy(), features, rtol=1e-9)
    tokens, confidences = drafted(net, anchor, taps, ends)
    wanted = plain.drafted(anchor, features, first=net.config.first_prediction)
    assert tokens == wanted[0]
    np.testing.assert_allclose(confidences, wanted[1], rtol=1e-4, atol=1e-4)
    assert len(tokens) == net.config.num_predictions


@pytest.mark.parametrize("config", [Z_LAB, DEEPSPEC, SPECULATORS])
def test_layers_read_and_what_predicts(tmp_path: Path, config: dict[str, Any]) -> None:
    folder, _ = publish_block(tmp_path, config)
    net = load(folder)
    assert net.config.feature_layers == (1, 4)
    assert net.config.anchor_predicts == (config is DEEPSPEC)
    assert net.config.mask_token_id == MASK
    taps = [torch.randn(3, HIDDEN), torch.randn(3, HIDDEN)]
    checkpoint = Checkpoint(str(folder))
    assert torch.equal(BLOCK_NETS.load_fusion(checkpoint, net.config)(taps).double(), net.float().fusion(taps).double())


def test_where_layers_follow_from_the_depth(tmp_path: Path) -> None:
    folder, _ = publish_block(tmp_path / "z", Z_LAB, dflash_config={"mask_token_id": MASK}, num_target_layers=12)
    assert read(folder).feature_layers == (1, 9)
    folder, _ = publish_block(tmp_path / "s", SPECULATORS, aux_hidden_state_layer_ids=None)
    with pytest.raises(ValueError, match="follow from its target's num_hidden_layers"):
        read(folder)


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (Z_LAB, {"hidden_act": "gelu"}, "has 'gelu' at the key 'hidden_act'"),
        (Z_LAB, {"attention_bias": True}, "has True at the key 'attention_bias'"),
        (Z_LAB, {"model_type": "gemma3"}, "has 'gemma3' at the key 'model_type'"),
        (Z_LAB, {"architectures": ["DFlash2DraftModel"]}, "'DFlash2DraftModel'.*at the key 'architectures'"),
        (Z_LAB, {"dflash_config": {"projector_type": "dspark"}}, "'dspark' at the key 'dflash_config.projector_type'"),
        (Z_LAB, {"dflash_config": {"target_layer_ids": [1, 4]}}, "lacks mask_token_id or block_size"),
        (
            Z_LAB,
            {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64, "use_sliding_window": True},
            "'sliding_attention'.*at the key 'layer_types'",
        ),
        (
            Z_LAB,
            {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
            "'dynamic'.*at the key 'rope_parameters'",
        ),
        (
            Z_LAB,
            {"dflash_config": {"mask_token_id": MASK, "target_layer_ids": [1, 7]}},
            "layer 7 is the target's last",
        ),
        (
            Z_LAB,
            {"dflash_config": {"mask_token_id": 900, "target_layer_ids": [1, 4]}},
            "mask_token_id 900 must be below",
        ),
        (Z_LAB, {"hidden_size": "32"}, "is no configuration of qwen3"),
        (Z_LAB, {"block_size": "5"}, "has '5'.*at the key 'block_size'"),
        (DEEPSPEC, {"architectures": ["Gemma4DSparkModel"]}, "'Gemma4DSparkModel'.*at the key 'architectures'"),
        (DEEPSPEC, {"target_layer_ids": [-1, 4]}, "-1 is the target's embedding"),
        (DEEPSPEC, {"target_layer_ids": [1, 7]}, "layer 7 is the target's last"),
        (DEEPSPEC, {"confidence_head_with_markov": False}, "has False at the key 'confidence_head_with_markov'"),
        (DEEPSPEC, {"markov_head_type": "gru"}, "has 'gru' at the key 'markov_head_type'"),
        (SPECULATORS, {"aux_hidden_state_layer_ids": [0, 5]}, "0 is the target's embedding"),
        (SPECULATORS, {"mask_token_id": None}, "lacks the key 'mask_token_id'"),
        (
            SPECULATORS,
            {"target_hidden_size": 64},
            "has 64 at the key 'target_hidden_size'; the draft's hidden_size is 32",
        ),
        (
            SPECULATORS_DSPARK,
            {"markov_head_type": "rnn", "sample_from_anchor": False},
            "has False at the key 'sample_from_anchor'",
        ),
        (SPECULATORS, {"speculators_model_type": "eagle3"}, "speculators_model_type 'eagle3', but block nets are"),
    ],
)
def test_what_a_block_net_cannot_express_is_refused(
    tmp_path: Path, config: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    folder, _ = publish_block(tmp_path, config)
    (folder / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ValueError, match=message):
        read(folder)
