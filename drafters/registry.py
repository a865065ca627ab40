"""The drafters by method name, and their configuration in the keys of vLLM's `speculative_config`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any

from drafters.block_config import BlockConfig, DFlashConfig, DSparkConfig
from drafters.context import DrafterContext
from drafters.draft_model_config import DraftModelConfig
from drafters.model_config import ModelConfig
from drafters.shipped import with_weights
from drafters.suffix import build_suffix
from drafters.suffix_config import SuffixConfig
from protos.interfaces import Drafter

if TYPE_CHECKING:
    from modeling.features import Fusion

DrafterConfig = SuffixConfig | DraftModelConfig | DFlashConfig | DSparkConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to guess: the dataclass that holds its keys, and what makes a drafter of them."""

    config: type[Any]
    build: Callable[[Any, DrafterContext], Drafter]
    fusion: Callable[[Any, DrafterContext], Fusion] | None = None


def _build_draft_model(config: DraftModelConfig, context: DrafterContext) -> Drafter:
    from drafters.draft_model import build_draft_model  # torch and transformers: a model-free drafter starts without

    return build_draft_model(config, context)


def _build_dflash(config: DFlashConfig, context: DrafterContext) -> Drafter:
    from drafters.dflash import build_dflash

    return build_dflash(config, context)


def _build_dspark(config: DSparkConfig, context: DrafterContext) -> Drafter:
    from drafters.dspark import build_dspark

    return build_dspark(config, context)


def _block_fusion(config: BlockConfig, context: DrafterContext) -> Fusion:
    from drafters.block_model import read_fusion

    return read_fusion(config, context)


METHODS: dict[str, Method] = {
    "suffix": Method(config=SuffixConfig, build=build_suffix),
    "draft_model": Method(config=DraftModelConfig, build=_build_draft_model),
    "dflash": Method(config=DFlashConfig, build=_build_dflash, fusion=_block_fusion),
    "dspark": Method(config=DSparkConfig, build=_build_dspark, fusion=_block_fusion),
}


def parse_config(speculative_config: Mapping[str, object]) -> DrafterConfig:
    """The configuration in a `speculative_config`; ValueError names an unknown method or key and lists the known."""
    method = speculative_config.get("method")
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"speculative_config: method {method!r} is unknown; known: {', '.join(sorted(METHODS))}")
    kind = METHODS[method].config
    known = {field.name for field in fields(kind)}
    given = {key: value for key, value in speculative_config.items() if key != "method"}
    for key in given:
        if key not in known:
            raise ValueError(
                f"speculative_config: key {key!r} is unknown to method {method!r}; known: {', '.join(sorted(known))}"
            )
    required = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
    for key in required:
        if key not in given:
            raise ValueError(f"speculative_config: method {method!r} needs the key {key!r}")
    try:
        config: DrafterConfig = kind(**given)
    except TypeError as error:
        raise ValueError(f"speculative_config of method {method!r}: {error}") from error
    return config


def resolved(config: DrafterConfig, target: str) -> DrafterConfig:
    """The configuration, its weights the shipped ones where it names none; ValueError where none are for the target."""
    name, _ = _method_of(config)
    return with_weights(config, name, target) if isinstance(config, ModelConfig) else config


def build_drafter(config: DrafterConfig, context: DrafterContext) -> Drafter:
    """The drafter that a configuration describes; ValueError where it does not fit the target in `context`."""
    _, method = _method_of(config)
    return method.build(resolved(config, context.target), context)


def build_fusion(config: DrafterConfig, context: DrafterContext) -> Fusion | None:
    """What the verifier runs for such a drafter, to send it features; None where it reads none."""
    _, method = _method_of(config)
    return None if method.fusion is None else method.fusion(resolved(config, context.target), context)


def _method_of(config: DrafterConfig) -> tuple[str, Method]:
    for name, method in METHODS.items():
        if type(config) is method.config:
            return name, method
    raise ValueError(f"no method has a configuration of type {type(config).__name__}; use parse_config")
