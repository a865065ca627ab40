"""Tensors of a checkpoint given to a module: all it needs, in the right shape, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import torch
from torch import nn

from modeling.checkpoint_files import Checkpoint

_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def fill(module: nn.Module, checkpoint: Checkpoint, prefix: str) -> None:
    """Gives a module its tensors; each must be there, in the right shape, and there must be no other."""
    wanted = module.state_dict()
    there = {name.removeprefix(prefix) for name in checkpoint.names() if name.startswith(prefix)}
    for problem, names in (("lack", wanted.keys() - there), ("have, but config.json does not,", there - wanted.keys())):
        if names:
            raise ValueError(f"weights of {checkpoint.name!r} {problem} {prefix}{min(names)}")
    assign(module, {name: checkpoint.tensor(prefix + name) for name in wanted}, checkpoint, prefix)


def assign(module: nn.Module, tensors: Mapping[str, torch.Tensor], checkpoint: Checkpoint, prefix: str) -> None:
    """Gives a module all its tensors; ValueError for a shape or a dtype that cannot be, or for what is no number.

    It computes in the widest dtype among them: norms may be stored wider than what they norm.
    """
    wanted = module.state_dict()
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise ValueError(
                f"tensor {prefix}{name} of {checkpoint.name!r} is {list(tensor.shape)}, but by config.json it is "
                f"{list(wanted[name].shape)}"
            )
        if wanted[name].is_floating_point() and tensor.dtype not in _FLOATS:
            known = ", ".join(str(dtype).removeprefix("torch.") for dtype in _FLOATS)
            raise ValueError(
                f"tensor {prefix}{name} of {checkpoint.name!r} is of dtype {str(tensor.dtype).removeprefix('torch.')}, "
                f"but weights are read in {known}"
            )
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(
                f"tensor {prefix}{name} of {checkpoint.name!r} has values that are no finite numbers; "
                "take an earlier checkpoint of its training, or another"
            )
    module.load_state_dict(tensors, assign=True)
    module.to(reduce(torch.promote_types, {each.dtype for each in module.parameters()}))
