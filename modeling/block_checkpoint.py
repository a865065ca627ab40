"""Block nets on disk: config.json, and the net's tensors by the names of its modules in model.safetensors."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors.torch import save_file

from modeling.block_net import BlockNet, BlockNetConfig
from modeling.checkpoint_files import WEIGHTS, Checkpoint
from modeling.fusion import FeatureFusion

MODEL_TYPE = "paradraft_block_net"
DRAFT_VOCAB = "d2t"
_SIZES = ("hidden_size", "intermediate_size", "num_layers", "num_heads", "num_kv_heads", "head_dim", "vocab_size")


def save_block_net(net: BlockNet, folder: Path) -> None:
    """Writes the net in bf16. `draft_vocab` is no part of config.json: the tensor d2t is it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": MODEL_TYPE} | asdict(net.config)
    del config["draft_vocab"]
    tensors = {
        name: (tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor).detach().cpu().contiguous()
        for name, tensor in net.state_dict().items()
    }
    save_file(tensors, folder / WEIGHTS)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def read_config(checkpoint: Checkpoint) -> BlockNetConfig:
    """ValueError names the first thing in config.json that cannot be."""
    given = dict(checkpoint.config)
    if given.pop("model_type", None) != MODEL_TYPE:
        raise ValueError(
            f"{checkpoint.name!r} is of model_type {checkpoint.config.get('model_type')!r}, but a block drafter is of "
            f"{MODEL_TYPE!r}; give a directory that was made by training one"
        )
    known = set(BlockNetConfig.__dataclass_fields__) - {"draft_vocab"}
    unknown = min(given.keys() - known, default=None)
    if unknown is not None:
        raise ValueError(f"config.json of {checkpoint.name!r} has the key {unknown!r}, which is unknown to block nets")
    if DRAFT_VOCAB in checkpoint.names():
        given["draft_vocab"] = checkpoint.tensor(DRAFT_VOCAB).tolist()
    try:
        config = TypeAdapter(BlockNetConfig).validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        said = "lacks the key" if first["type"] == "missing" else f"has {first['input']!r} ({first['msg']}) at the key"
        raise ValueError(f"config.json of {checkpoint.name!r} {said} {key!r}") from error
    _check_consistent(config, checkpoint.name)
    return config


def load_block_net(checkpoint: Checkpoint, config: BlockNetConfig) -> BlockNet:
    """The net with its weights, in their stored dtype, on the CPU."""
    net = BlockNet(config)
    _fill(net, checkpoint, "")
    return net


def load_fusion(checkpoint: Checkpoint, config: BlockNetConfig) -> FeatureFusion:
    """The verifier's part alone, in its stored dtype, on the CPU."""
    fusion = FeatureFusion(config.feature_layers, config.hidden_size, config.rms_norm_eps)
    _fill(fusion, checkpoint, "fusion.")
    return fusion


def check_target(config: BlockNetConfig, checkpoint: Checkpoint, target: Checkpoint) -> None:
    """ValueError with both values where the net was made for a target of another shape."""
    theirs = target.config
    for name in ("hidden_size", "vocab_size"):
        if getattr(config, name) != theirs.get(name):
            raise ValueError(
                f"{checkpoint.name!r} was trained for a target of {name} {getattr(config, name)}, but that of "
                f"{target.name!r} is {theirs.get(name)}; use the target it was trained for"
            )
    layers = theirs.get("num_hidden_layers", 0)
    if max(config.feature_layers) >= layers:
        raise ValueError(
            f"{checkpoint.name!r} reads target layer {max(config.feature_layers)}, but {target.name!r} has {layers} "
            f"layers, 0 to {layers - 1}; use the target it was trained for"
        )


def _fill(module: torch.nn.Module, checkpoint: Checkpoint, prefix: str) -> None:
    """Gives a module its tensors; each must be there, in the right shape, and there must be no other."""
    wanted = module.state_dict()
    there = {name.removeprefix(prefix) for name in checkpoint.names() if name.startswith(prefix)}
    for problem, names in (("lack", wanted.keys() - there), ("have, but config.json does not,", there - wanted.keys())):
        if names:
            raise ValueError(f"weights of {checkpoint.name!r} {problem} {prefix}{min(names)}")
    tensors = {name: checkpoint.tensor(prefix + name) for name in wanted}
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise ValueError(
                f"tensor {prefix}{name} of {checkpoint.name!r} is {list(tensor.shape)}, but by config.json it is "
                f"{list(wanted[name].shape)}"
            )
    module.load_state_dict(tensors, assign=True)


def _check_consistent(config: BlockNetConfig, name: str) -> None:
    layers, vocabulary = config.feature_layers, config.draft_vocab
    smallest = min(_SIZES, key=lambda size: getattr(config, size))
    demands = {
        f"{smallest} {getattr(config, smallest)} must be positive": getattr(config, smallest) > 0,
        f"num_heads {config.num_heads} must be a multiple of num_kv_heads {config.num_kv_heads}": (
            config.num_heads % max(config.num_kv_heads, 1) == 0
        ),
        f"head_dim {config.head_dim} must be even": config.head_dim % 2 == 0,
        f"feature_layers {list(layers)} must be ascending layers": (
            len(layers) > 0 and layers[0] >= 0 and list(layers) == sorted(set(layers))
        ),
        f"block_size {config.block_size} must be at least 2": config.block_size >= 2,
        f"markov {config.markov!r} does not go with markov_rank {config.markov_rank}": (
            (config.markov == "none") == (config.markov_rank == 0) and config.markov_rank >= 0
        ),
        f"mask_token_id {config.mask_token_id} must be below vocab_size {config.vocab_size}": (
            config.mask_token_id is None or 0 <= config.mask_token_id < config.vocab_size
        ),
        f"{DRAFT_VOCAB} must be different token ids below vocab_size {config.vocab_size}": (
            vocabulary is None or 0 < len(vocabulary) == len({i for i in vocabulary if 0 <= i < config.vocab_size})
        ),
    }
    for demand, met in demands.items():
        if not met:
            raise ValueError(f"{name!r} is inconsistent: {demand}")
