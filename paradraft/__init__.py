"""The face of paradraft: LLM and SamplingParams for offline use, build_app for Ray Serve. Loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protos.sampling_params import SamplingParams
    from services.app import build_app
    from services.offline import LLM

__all__ = ["LLM", "SamplingParams", "build_app"]

_HOMES = {"LLM": "services.offline", "SamplingParams": "protos.sampling_params", "build_app": "services.app"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'paradraft' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)
