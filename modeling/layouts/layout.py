"""Layout: how a published checkpoint says what net it holds, and which of its tensors make up the net's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

import torch
from torch import nn

from modeling.checkpoint_files import Checkpoint
from modeling.net_config import Config
from modeling.net_tensors import assign

# What only training and rotary embeddings kept: t2d is checked where d2t is read, the others follow from the target.
_SPARE = re.compile(r"t2d|verifier_(lm_head|norm)\.weight|(.*\.)?rotary_emb\.inv_freq")


def joined(*tensors: torch.Tensor) -> torch.Tensor:
    """The rows of all of them."""
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


@dataclass(frozen=True, slots=True)
class Source:
    """What a tensor of a net is made of: `names` of published tensors, which `make` turns into it."""

    names: tuple[str, ...]
    make: Callable[..., torch.Tensor] = joined


def rows(*names: str) -> Source:
    """One published tensor, or several with their rows joined."""
    return Source(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(Generic[Config]):
    """One way to publish nets of a kind.

    recognises: whether a checkpoint is in this layout. configure: the net's configuration, from the checkpoint and,
    where that leaves things to it, the target; ValueError names what a net here cannot express. sources: by name of
    the net's tensors, those of the checkpoint that they are made of.
    """

    name: str
    recognises: Callable[[Checkpoint], bool]
    configure: Callable[[Checkpoint, Checkpoint | None], Config]
    sources: Callable[[Checkpoint, Config], Mapping[str, Source]]

    def fill(self, module: nn.Module, checkpoint: Checkpoint, config: Config, *, prefix: str = "") -> None:
        """Gives a module, which the net has at `prefix`, its tensors; ValueError for what is left over or missing."""
        sources = self.sources(checkpoint, config)
        used = {name for source in sources.values() for name in source.names}
        there = checkpoint.names()
        unknown = min((name for name in there - used if not _SPARE.fullmatch(name)), default=None)
        if unknown is not None:
            raise ValueError(
                f"weights of {checkpoint.name!r} have {unknown}, which the layout {self.name} does not know"
            )
        missing = min(used - there, default=None)
        if missing is not None:
            raise ValueError(f"weights of {checkpoint.name!r} lack {missing}, which the layout {self.name} asks for")
        tensors = {name: _made(checkpoint, sources[prefix + name]) for name in module.state_dict()}
        assign(module, tensors, checkpoint, prefix)


def refuse(checkpoint: Checkpoint, key: str, value: Any, why: str) -> ValueError:
    """The error for something published that nets here cannot express."""
    return ValueError(f"config.json of {checkpoint.name!r} has {value!r} at the key {key!r}; {why}")


def required(checkpoint: Checkpoint, given: Mapping[str, Any], key: str) -> Any:
    """The value of a key that has no default; ValueError where it is missing or null."""
    if given.get(key) is None:
        raise ValueError(f"config.json of {checkpoint.name!r} lacks the key {key!r}")
    return given[key]


def _made(checkpoint: Checkpoint, source: Source) -> torch.Tensor:
    tensors = [checkpoint.tensor(name) for name in source.names]
    try:
        return source.make(*tensors)
    except (IndexError, RuntimeError) as error:
        shapes = ", ".join(f"{name} {list(t.shape)}" for name, t in zip(source.names, tensors, strict=True))
        raise ValueError(f"tensors of {checkpoint.name!r} do not go together: {shapes}") from error
