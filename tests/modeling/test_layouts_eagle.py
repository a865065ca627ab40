"""Published EAGLE nets: loaded by their own names, they draft what their own tensors say, or are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from benchmarks.harness.tiny import VOCAB_SIZE, save_tiny, tiny_llama
from modeling.checkpoint_files import PICKLED, WEIGHTS, Checkpoint
from modeling.eagle_checkpoint import EAGLE_NETS
from modeling.eagle_net import EagleNet
from modeling.net_checkpoint import check_target
from tests.modeling.published import HIDDEN
from tests.modeling.published_eagles import (
    DEEPSPEC_EAGLE,
    IDS,
    PEAGLE,
    SAFEAILAB,
    SLOTS,
    SPECULATORS_EAGLE,
    TAPS,
    PlainPublishedEagle,
    publish_eagle,
    with_layers,
)

FULL = {"draft_vocab_size": VOCAB_SIZE}
TEXT = (7, 90, 33, 201, 7, 12, 250)

EAGLE3 = [
    pytest.param(SAFEAILAB, {}, id="safeailab"),
    pytest.param(SAFEAILAB, FULL, id="safeailab-whole"),
    pytest.param(DEEPSPEC_EAGLE, {}, id="deepspec"),
    pytest.param(SPECULATORS_EAGLE, {}, id="speculators"),
    pytest.param(SPECULATORS_EAGLE, FULL | {"norm_before_residual": False}, id="speculators-whole"),
    pytest.param(SPECULATORS_EAGLE, {"norm_before_fc": True}, id="speculators-norm-before"),
    pytest.param(SPECULATORS_EAGLE, {"fc_norm": True, "norm_output": True}, id="speculators-3.1"),
    pytest.param(with_layers(SPECULATORS_EAGLE, model_type="qwen3", num_hidden_layers=2), {}, id="speculators-qwen3"),
]
P_EAGLE = [
    pytest.param(PEAGLE, {}, id="plain"),
    pytest.param(with_layers(PEAGLE, num_hidden_layers=3), {"fc_norm": True}, id="three-layers"),
    pytest.param(PEAGLE, {"norm_before_fc": True, "norm_before_residual": True}, id="norm-before"),
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """As wide as the nets, and deep enough for EAGLE-3's layers to differ."""
    config = tiny_llama()
    config.hidden_size, config.num_hidden_layers = HIDDEN, 8
    return Checkpoint(str(save_tiny(tmp_path_factory.mktemp("target"), config)))


def load(folder: Path, target: Checkpoint | None) -> EagleNet:
    checkpoint = Checkpoint(str(folder))
    net = EAGLE_NETS.load(checkpoint, EAGLE_NETS.read_config(checkpoint, target))
    return net.double().eval().requires_grad_(requires_grad=False)


@torch.inference_mode()
def states(net: EagleNet, embeds: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """What a forward over a whole text hands on, [n, d]."""
    count, shape = len(embeds), (1, net.config.num_kv_heads, 0, net.config.head_dim)
    empty = [(torch.zeros(shape, dtype=torch.float64),) * 2] * net.config.num_layers
    mask = torch.ones(count, count, dtype=torch.bool).tril()[None, None]
    handed: torch.Tensor = net(embeds[None], hidden[None], torch.arange(1, count + 1)[None], empty, mask)[0][0]
    return handed


def best(net: EagleNet, state: torch.Tensor) -> int:
    assert net.lm_head is not None
    return int(net.target_ids(net.lm_head(net.normed(state)).argmax()))


def given(seed: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """A target's embedding, and what is tapped for the text's tokens but the last: [n, 3 * d]."""
    generator = torch.Generator().manual_seed(seed)
    embedding = torch.randn(VOCAB_SIZE, HIDDEN, generator=generator, dtype=torch.float64)
    return embedding, torch.randn(len(TEXT) - 1, TAPS * HIDDEN, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("config", "changes"), EAGLE3)
def test_eagle3_drafts_are_those_of_the_published_tensors(
    tmp_path: Path, target: Checkpoint, config: dict[str, Any], changes: dict[str, Any]
) -> None:
    folder, tensors = publish_eagle(tmp_path, config, **changes)
    embedding, taps = given()
    net, plain = load(folder, target), PlainPublishedEagle(config | changes, tensors, embedding)
    table = embedding if net.embedding is None else net.embedding.detach()
    hidden = net.fusion([*taps.chunk(TAPS, dim=-1)]).detach()
    features = [plain.feature(np.split(tap.numpy(), TAPS)) for tap in taps]
    np.testing.assert_allclose(hidden.numpy(), features, rtol=1e-9)
    tokens = list(TEXT[1:])
    for _ in range(5):
        handed = states(net, table[tokens], hidden)
        wanted, _ = plain.states(tokens, list(hidden.numpy()), list(range(len(tokens))))
        np.testing.assert_allclose(handed.numpy(), wanted, rtol=1e-4, atol=1e-4)
        tokens.append(best(net, handed[-1]))
        hidden = torch.cat((hidden, handed[-1:]))
    assert tokens[len(TEXT) - 1 :] == plain.drafted(TEXT, features, 5)
    assert net.config.feature_layers == (1, 3, 4)


@pytest.mark.parametrize(("config", "changes"), P_EAGLE)
def test_p_eagle_drafts_are_those_of_the_published_tensors(
    tmp_path: Path, config: dict[str, Any], changes: dict[str, Any]
) -> None:
    folder, tensors = publish_eagle(tmp_path, config, **changes)
    embedding, taps = given()
    net, plain = load(folder, None), PlainPublishedEagle(config | changes, tensors, embedding)
    assert net.embedding is not None
    assert (net.config.slots, net.config.num_slots) == ("mask", SLOTS)
    features = net.fusion([*taps.chunk(TAPS, dim=-1)]).detach()
    embeds = net.embedding.detach()[list(TEXT[1:])]
    more_embeds, more_features = (each.detach() for each in net.slot_inputs(features[-1], embeds[-1]))
    handed = states(net, torch.cat((embeds, more_embeds)), torch.cat((features, more_features)))
    wanted = plain.drafted_at_once(TEXT, [plain.feature(np.split(tap.numpy(), TAPS)) for tap in taps])
    assert [best(net, state) for state in handed[-SLOTS:]] == wanted


def test_the_verifier_s_part_is_the_net_s(tmp_path: Path) -> None:
    folder, _ = publish_eagle(tmp_path, SPECULATORS_EAGLE, fc_norm=True)
    checkpoint = Checkpoint(str(folder))
    config = EAGLE_NETS.read_config(checkpoint)
    taps = [torch.randn(2, HIDDEN) for _ in range(TAPS)]
    fusion, net = EAGLE_NETS.load_fusion(checkpoint, config), EAGLE_NETS.load(checkpoint, config)
    assert torch.equal(fusion(taps), net.fusion(taps))


def test_offsets_are_no_ids(tmp_path: Path, target: Checkpoint) -> None:
    folder, tensors = publish_eagle(tmp_path, SAFEAILAB)
    assert EAGLE_NETS.read_config(Checkpoint(str(folder)), target).draft_vocab == IDS
    save_file(tensors | {"d2t": torch.tensor(IDS)}, folder / WEIGHTS)
    with pytest.raises(ValueError, match=r"d2t and t2d of .* name different tokens"):
        EAGLE_NETS.read_config(Checkpoint(str(folder)), target)


def test_pickled_as_most_are(tmp_path: Path, target: Checkpoint) -> None:
    folder, tensors = publish_eagle(tmp_path, SAFEAILAB)
    kept = load(folder, target)
    (folder / WEIGHTS).unlink()
    torch.save(tensors, folder / PICKLED)
    assert load(folder, target).state_dict().keys() == kept.state_dict().keys()
    assert torch.equal(load(folder, target).fusion.linear.weight, kept.fusion.linear.weight)


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (
            SAFEAILAB,
            {"target_hidden_size": 64},
            "has 64 at the key 'target_hidden_size'; the draft's .* is 32",
        ),
        (SAFEAILAB, {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}}, "at the key 'eagle_config'"),
        (SAFEAILAB, {"norm_before_fc": True}, "has True at the key 'norm_before_fc'"),
        (SAFEAILAB, {"num_hidden_layers": 2}, "has 2 at the key 'num_hidden_layers'"),
        (
            SAFEAILAB,
            {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
            "at the key 'rope_parameters'",
        ),
        (SAFEAILAB, {"quantization_config": {"quant_method": "fp8"}}, "at the key 'quantization_config'"),
        (DEEPSPEC_EAGLE, {"architectures": ["Gemma4Eagle3Model"]}, "'Gemma4Eagle3Model'.*at the key 'architectures'"),
        (DEEPSPEC_EAGLE, {"num_hidden_layers": 2}, "has 2 at the key 'num_hidden_layers'"),
        (DEEPSPEC_EAGLE, {"target_layer_ids": [-1, 3, 4]}, "-1 is the target's embedding"),
        (SPECULATORS_EAGLE, {"eagle_aux_hidden_state_layer_ids": [0, 4, 5]}, "0 is the target's embedding"),
        (SPECULATORS_EAGLE, {"norm_before_fc": True, "fc_norm": True}, "has True at the key 'fc_norm'"),
        (SPECULATORS_EAGLE, {"norm_before_residual": "yes"}, "has 'yes'.*at the key 'norm_residual'"),
        (PEAGLE, {"mask_token_id": None}, "lacks the key 'mask_token_id'"),
        (PEAGLE, {"mask_token_id": 258}, "has 258 at the key 'mask_token_id'; it must be below vocab_size 258"),
        (PEAGLE, {"speculators_config": {"proposal_methods": [{"speculative_tokens": 1}]}}, "at least 2"),
        (PEAGLE, {"speculators_model_type": "mtp"}, "speculators_model_type 'mtp', but EAGLE nets are"),
    ],
)
def test_what_an_eagle_net_cannot_express_is_refused(
    tmp_path: Path, target: Checkpoint, config: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    folder, _ = publish_eagle(tmp_path, config)
    (folder / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ValueError, match=message):
        EAGLE_NETS.read_config(Checkpoint(str(folder)), target)


@pytest.mark.parametrize("config", [SAFEAILAB, DEEPSPEC_EAGLE, SPECULATORS_EAGLE, PEAGLE])
def test_every_tensor_is_used_or_known(tmp_path: Path, target: Checkpoint, config: dict[str, Any]) -> None:
    folder, tensors = publish_eagle(tmp_path, config)
    save_file(tensors | {"verifier_norm.weight": torch.ones(2)}, folder / WEIGHTS)
    assert isinstance(load(folder, target), EagleNet)
    for name in ("fc.bias", "fc_norm.0.weight", "input_norm.weight", "layers.1.mlp.up_proj.weight"):
        save_file(tensors | {name: torch.ones(1)}, folder / WEIGHTS)
        with pytest.raises(ValueError, match=f"weights of .* have {name}, which the layout"):
            load(folder, target)
    for name in tensors.keys() - {"embed_tokens.weight", "lm_head.weight", "d2t", "t2d"}:
        save_file({each: tensor for each, tensor in tensors.items() if each != name}, folder / WEIGHTS)
        with pytest.raises(ValueError, match=f"lack {name}"):
            load(folder, target)


def test_p_eagle_needs_an_embedding_of_its_own(tmp_path: Path) -> None:
    folder, tensors = publish_eagle(tmp_path, PEAGLE)
    del tensors["embed_tokens.weight"]
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(ValueError, match=r"lack embed_tokens.weight"):
        load(folder, None)


def test_another_target_is_refused(tmp_path: Path, target: Checkpoint) -> None:
    folder, _ = publish_eagle(tmp_path / "net", SAFEAILAB)
    net, wider = Checkpoint(str(folder)), Checkpoint(str(save_tiny(tmp_path / "wider")))
    check_target(EAGLE_NETS.read_config(net, target), net, target)
    with pytest.raises(ValueError, match=r"feature_layers \[1, 0, -2\] must be ascending"):
        EAGLE_NETS.read_config(net, wider)
    deep, _ = publish_eagle(tmp_path / "deep", SPECULATORS_EAGLE, eagle_aux_hidden_state_layer_ids=[2, 4, 9])
    with pytest.raises(ValueError, match=r"reads target layer 8, but .* has 8 layers"):
        check_target(EAGLE_NETS.read_config(Checkpoint(str(deep))), Checkpoint(str(deep)), target)
    with pytest.raises(ValueError, match=r"hidden_size 32, but that of .* is 64"):
        check_target(EAGLE_NETS.read_config(Checkpoint(str(deep))), Checkpoint(str(deep)), wider)


def test_layers_that_depend_on_a_target_need_it(tmp_path: Path) -> None:
    folder, _ = publish_eagle(tmp_path, SAFEAILAB)
    with pytest.raises(ValueError, match="follow from its target's num_hidden_layers"):
        EAGLE_NETS.read_config(Checkpoint(str(folder)))
