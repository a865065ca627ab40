"""NetKind: one kind of draft net on disk, its own files and published ones, and its first part for the verifier."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors.torch import save_file
from torch import nn

from modeling.block_net import BlockNet
from modeling.checkpoint_files import WEIGHTS, Checkpoint
from modeling.eagle_net import EagleNet
from modeling.fusion import NetFusion
from modeling.layouts.layout import Layout
from modeling.net_config import Config, NetConfig
from modeling.net_tensors import fill

DRAFT_VOCAB = "d2t"

Net = TypeVar("Net", BlockNet, EagleNet)
Module = TypeVar("Module", bound=nn.Module)
_SIZES = ("hidden_size", "intermediate_size", "num_layers", "num_heads", "num_kv_heads", "head_dim", "vocab_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetKind(Generic[Config, Net]):
    """A kind of net: how nets of it are saved, and read from what was saved or published.

    Saved, a net is config.json and its tensors by the names of its modules. name: what its nets are called.
    model_type: stands in config.json. config, net, fusion: make the configuration, the net and its first part alone.
    layouts: of published nets. demands: what must hold of a configuration, beyond what must of every draft net's.
    """

    name: str
    model_type: str
    config: type[Config]
    net: Callable[[Config], Net]
    fusion: Callable[[Config], NetFusion]
    layouts: tuple[Layout[Config], ...]
    demands: Callable[[Config], dict[str, bool]]

    def save(self, net: Net, folder: Path) -> None:
        """Writes config.json and the weights, in bf16. `draft_vocab` is no part of config.json: the tensor d2t is."""
        folder.mkdir(parents=True, exist_ok=True)
        said = {"model_type": self.model_type} | asdict(net.config)
        del said["draft_vocab"]
        tensors = {
            name: (tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor).detach().cpu().contiguous()
            for name, tensor in net.state_dict().items()
        }
        save_file(tensors, folder / WEIGHTS)
        (folder / "config.json").write_text(json.dumps(said, indent=2) + "\n")

    def read_config(self, checkpoint: Checkpoint, target: Checkpoint | None = None) -> Config:
        """ValueError names the first thing in config.json that cannot be.

        target: the net's, on whose depth it depends in some published ones which layers they read.
        """
        layout = self._layout(checkpoint)
        given = self._saved(checkpoint) if layout is None else asdict(layout.configure(checkpoint, target))
        config = self._parsed(given, checkpoint.name)
        for demand, met in (_demands(config) | self.demands(config)).items():
            if not met:
                raise ValueError(f"{checkpoint.name!r} is inconsistent: {demand}")
        return config

    def load(self, checkpoint: Checkpoint, config: Config) -> Net:
        """The net with its weights, in their stored dtype, on the CPU."""
        return self._filled(self.net(config), checkpoint, config, prefix="")

    def load_fusion(self, checkpoint: Checkpoint, config: Config) -> NetFusion:
        """The verifier's part alone, in its stored dtype, on the CPU."""
        return self._filled(self.fusion(config), checkpoint, config, prefix="fusion.")

    def _layout(self, checkpoint: Checkpoint) -> Layout[Config] | None:
        """The first that recognises the checkpoint; None where it was saved here, or is no net of this kind."""
        return next((layout for layout in self.layouts if layout.recognises(checkpoint)), None)

    def _saved(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """The configuration as `save` wrote it, its values unchecked."""
        given = dict(checkpoint.config)
        if given.pop("model_type", None) != self.model_type:
            key = "speculators_model_type" if "speculators_model_type" in checkpoint.config else "model_type"
            raise ValueError(
                f"{checkpoint.name!r} is of {key} {checkpoint.config.get(key)!r}, but {self.name}s are of "
                f"{self.model_type!r} or in a published layout; give a directory that was made by training one, or "
                "that of a published one"
            )
        known = {each.name for each in fields(self.config)} - {"draft_vocab"}
        unknown = min(given.keys() - known, default=None)
        if unknown is not None:
            raise ValueError(
                f"config.json of {checkpoint.name!r} has the key {unknown!r}, which is unknown to {self.name}s"
            )
        if DRAFT_VOCAB in checkpoint.names():
            given["draft_vocab"] = checkpoint.tensor(DRAFT_VOCAB).tolist()
        return given

    def _parsed(self, given: Mapping[str, Any], name: str) -> Config:
        try:
            return TypeAdapter(self.config).validate_json(json.dumps(given), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            missing = first["type"] == "missing"
            said = "lacks the key" if missing else f"has {first['input']!r} ({first['msg']}) at the key"
            raise ValueError(f"config.json of {name!r} {said} {key!r}") from error

    def _filled(self, module: Module, checkpoint: Checkpoint, config: Config, *, prefix: str) -> Module:
        """A module, which the net has at `prefix`, with its tensors."""
        layout = self._layout(checkpoint)
        if layout is None:
            fill(module, checkpoint, prefix)
        else:
            layout.fill(module, checkpoint, config, prefix=prefix)
        return module


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


def _demands(config: NetConfig) -> dict[str, bool]:
    layers, vocabulary, frequencies = config.feature_layers, config.draft_vocab, config.rope_frequencies
    smallest = min(_SIZES, key=lambda size: getattr(config, size))
    return {
        f"{smallest} {getattr(config, smallest)} must be positive": getattr(config, smallest) > 0,
        f"num_heads {config.num_heads} must be a multiple of num_kv_heads {config.num_kv_heads}": (
            config.num_heads % max(config.num_kv_heads, 1) == 0
        ),
        f"head_dim {config.head_dim} must be even": config.head_dim % 2 == 0,
        f"rms_norm_eps {config.rms_norm_eps} must be a number from 0": 0 <= config.rms_norm_eps < math.inf,
        f"rope_theta {config.rope_theta} must be a number above 0": 0 < config.rope_theta < math.inf,
        f"rope_scale {config.rope_scale} must be a number above 0": 0 < config.rope_scale < math.inf,
        f"rope_frequencies must be {config.head_dim // 2} numbers, half of head_dim {config.head_dim}": (
            frequencies is None or (len(frequencies) == config.head_dim // 2 and all(map(math.isfinite, frequencies)))
        ),
        f"feature_layers {list(layers)} must be ascending layers": (
            len(layers) > 0 and layers[0] >= 0 and list(layers) == sorted(set(layers))
        ),
        f"{DRAFT_VOCAB} must be different token ids below vocab_size {config.vocab_size}": (
            vocabulary is None or 0 < len(vocabulary) == len({i for i in vocabulary if 0 <= i < config.vocab_size})
        ),
    }
