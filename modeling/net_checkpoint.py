"""Draft nets on disk: config.json, and the net's tensors by the names of its modules in model.safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors.torch import save_file
from torch import nn

from modeling.checkpoint_files import WEIGHTS, Checkpoint

DRAFT_VOCAB = "d2t"


class NetConfig(Protocol):
    """What the configurations of all draft nets have; they are frozen dataclasses."""

    @property
    def hidden_size(self) -> int: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def feature_layers(self) -> tuple[int, ...]: ...

    @property
    def num_heads(self) -> int: ...

    @property
    def num_kv_heads(self) -> int: ...

    @property
    def head_dim(self) -> int: ...

    @property
    def draft_vocab(self) -> tuple[int, ...] | None: ...


FLOATS = (torch.float32, torch.bfloat16, torch.float16)

Config = TypeVar("Config", bound=NetConfig)
_SIZES = ("hidden_size", "intermediate_size", "num_layers", "num_heads", "num_kv_heads", "head_dim", "vocab_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetKind(Generic[Config]):
    """A kind of net. name: what its nets are called. config: its dataclass. model_type: stands in config.json."""

    name: str
    config: type[Config]
    model_type: str

    def save(self, net: nn.Module, config: Config, folder: Path) -> None:
        """Writes the net in bf16. `draft_vocab` is no part of config.json: the tensor d2t is it."""
        folder.mkdir(parents=True, exist_ok=True)
        said = {"model_type": self.model_type} | asdict(config)  # type: ignore[call-overload]
        del said["draft_vocab"]
        tensors = {
            name: (tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor).detach().cpu().contiguous()
            for name, tensor in net.state_dict().items()
        }
        save_file(tensors, folder / WEIGHTS)
        (folder / "config.json").write_text(json.dumps(said, indent=2) + "\n")

    def read_config(self, checkpoint: Checkpoint) -> Config:
        """ValueError names the first thing in config.json that cannot be."""
        given = dict(checkpoint.config)
        if given.pop("model_type", None) != self.model_type:
            key = "speculators_model_type" if "speculators_model_type" in checkpoint.config else "model_type"
            raise ValueError(
                f"{checkpoint.name!r} is of {key} {checkpoint.config.get(key)!r}, but {self.name}s are of "
                f"{self.model_type!r} or in a published layout; give a directory that was made by training one, or "
                "that of a published one"
            )
        known = {each.name for each in fields(self.config)} - {"draft_vocab"}  # type: ignore[arg-type]
        unknown = min(given.keys() - known, default=None)
        if unknown is not None:
            raise ValueError(
                f"config.json of {checkpoint.name!r} has the key {unknown!r}, which is unknown to {self.name}s"
            )
        if DRAFT_VOCAB in checkpoint.names():
            given["draft_vocab"] = checkpoint.tensor(DRAFT_VOCAB).tolist()
        return self._parsed(given, checkpoint.name)

    def checked(self, config: Config, name: str) -> Config:
        """A configuration that was read from a published config.json; ValueError for what has no right type."""
        return self._parsed(asdict(config), name)  # type: ignore[call-overload]

    def _parsed(self, given: Mapping[str, Any], name: str) -> Config:
        try:
            config = TypeAdapter(self.config).validate_json(json.dumps(given), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            missing = first["type"] == "missing"
            said = "lacks the key" if missing else f"has {first['input']!r} ({first['msg']}) at the key"
            raise ValueError(f"config.json of {name!r} {said} {key!r}") from error
        check_demands(_demands(config), name)
        return config


def check_demands(demands: Mapping[str, bool], name: str) -> None:
    """ValueError with the first demand that is not met."""
    for demand, met in demands.items():
        if not met:
            raise ValueError(f"{name!r} is inconsistent: {demand}")


def check_target(config: NetConfig, checkpoint: Checkpoint, target: Checkpoint) -> None:
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


def fill(module: nn.Module, checkpoint: Checkpoint, prefix: str) -> None:
    """Gives a module its tensors; each must be there, in the right shape, and there must be no other."""
    wanted = module.state_dict()
    there = {name.removeprefix(prefix) for name in checkpoint.names() if name.startswith(prefix)}
    for problem, names in (("lack", wanted.keys() - there), ("have, but config.json does not,", there - wanted.keys())):
        if names:
            raise ValueError(f"weights of {checkpoint.name!r} {problem} {prefix}{min(names)}")
    assign(module, {name: checkpoint.tensor(prefix + name) for name in wanted}, checkpoint, prefix)


def assign(module: nn.Module, tensors: Mapping[str, torch.Tensor], checkpoint: Checkpoint, prefix: str) -> None:
    """Gives a module all its tensors; ValueError for a shape or a dtype that cannot be."""
    wanted = module.state_dict()
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise ValueError(
                f"tensor {prefix}{name} of {checkpoint.name!r} is {list(tensor.shape)}, but by config.json it is "
                f"{list(wanted[name].shape)}"
            )
        if wanted[name].is_floating_point() and tensor.dtype not in FLOATS:
            known = ", ".join(str(dtype).removeprefix("torch.") for dtype in FLOATS)
            raise ValueError(
                f"tensor {prefix}{name} of {checkpoint.name!r} is of dtype {str(tensor.dtype).removeprefix('torch.')}, "
                f"but weights are read in {known}"
            )
    module.load_state_dict(tensors, assign=True)


def _demands(config: NetConfig) -> dict[str, bool]:
    layers, vocabulary = config.feature_layers, config.draft_vocab
    smallest = min(_SIZES, key=lambda size: getattr(config, size))
    return {
        f"{smallest} {getattr(config, smallest)} must be positive": getattr(config, smallest) > 0,
        f"num_heads {config.num_heads} must be a multiple of num_kv_heads {config.num_kv_heads}": (
            config.num_heads % max(config.num_kv_heads, 1) == 0
        ),
        f"head_dim {config.head_dim} must be even": config.head_dim % 2 == 0,
        f"feature_layers {list(layers)} must be ascending layers": (
            len(layers) > 0 and layers[0] >= 0 and list(layers) == sorted(set(layers))
        ),
        f"{DRAFT_VOCAB} must be different token ids below vocab_size {config.vocab_size}": (
            vocabulary is None or 0 < len(vocabulary) == len({i for i in vocabulary if 0 <= i < config.vocab_size})
        ),
    }
