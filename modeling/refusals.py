"""What cannot be served, refused at start with the reason."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

BATCH_DEPENDENT_ROPE = frozenset({"dynamic", "longrope"})


def check_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one. ValueError for an unknown or absent device."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device is {name!r}; it must be auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device is {name!r}; it must be auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but torch sees no CUDA device here; use device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device is {name!r}, but there are only {torch.cuda.device_count()} CUDA devices")
    return device


def check_revision(revision: str | None, source: str) -> None:
    """transformers ignores the revision of what is not on the hub."""
    if revision is not None and Path(source).exists():
        raise ValueError(f"revision is {revision!r}, but {source!r} is a local directory, which has none; leave it out")


def check_complete(source: str, missing: Collection[str]) -> None:
    """transformers fills a weight that the checkpoint has not with random numbers, and only warns."""
    if missing:
        raise ValueError(
            f"weights of {source!r} lack {len(missing)} that its config.json asks for, {min(missing)} among them; "
            "give a whole checkpoint, or the config that belongs to it"
        )


def check_truncatable(config: Any) -> None:
    """Rejected draft tokens are taken back by writing a length. A cache that forgets or blends rows cannot do that."""
    reason = _untruncatable(config)
    if reason:
        raise ValueError(
            f"model type {config.model_type!r} cannot be served: its cache cannot be truncated ({reason}), "
            "so rejected draft tokens could not be taken back"
        )


def _untruncatable(config: Any) -> str | None:
    layer_types = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    window = getattr(config, "sliding_window", None)
    if window is not None and getattr(config, "use_sliding_window", True):
        return f"sliding window of {window} tokens"
    if layer_types:
        return f"layers of type {', '.join(sorted(layer_types))}"
    if getattr(config, "num_attention_heads", None) is None:
        return "recurrent state instead of attention"
    if getattr(config, "is_encoder_decoder", False):
        return "encoder-decoder model"
    return None


def check_positions(config: Any) -> None:
    """A rotary embedding whose frequencies follow the longest position of a batch would let neighbours change a row."""
    rope = getattr(config, "rope_parameters", None) or {}
    kind = rope.get("rope_type", "default")
    if kind in BATCH_DEPENDENT_ROPE:
        raise ValueError(
            f"model type {config.model_type!r} cannot be served: its rotary embedding of type {kind!r} depends on the "
            "longest sequence of the batch"
        )
