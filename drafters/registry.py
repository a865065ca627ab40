"""The drafters by method name, and their configuration in the keys of vLLM's `speculative_config`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from drafters.block_config import DFlashConfig, DSparkConfig
from drafters.cached_config import CachedConfig
from drafters.context import DrafterContext
from drafters.draft_model_config import DraftModelConfig
from drafters.eagle_config import Eagle3Config, PEagleConfig
from drafters.mixed_config import MixedConfig, Part, named
from drafters.model_config import ModelConfig
from drafters.shipped import with_weights
from drafters.suffix_config import SuffixConfig
from protos.interfaces import Drafter

if TYPE_CHECKING:
    from modeling.features import Fusion

DrafterConfig = Part | MixedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to guess. config: the dataclass that holds its keys.

    build: what makes a drafter of these and a DrafterContext. fusion: what makes the part that the verifier runs, None
    where it reads no features. Each is a `module:function`, imported when it is called: a drafter without a model
    starts without torch.
    """

    config: type[Any]
    build: str
    fusion: str | None = None


_BLOCK_FUSION = "drafters.block_model:load_block_fusion"
_EAGLE_FUSION = "drafters.eagle_model:load_eagle_fusion"
METHODS: dict[str, Method] = {
    "suffix": Method(config=SuffixConfig, build="drafters.suffix:build_suffix"),
    "cached": Method(
        config=CachedConfig,
        build="drafters.cached:build_cached",
        fusion="drafters.prefix_features:build_prefix_fusion",
    ),
    "draft_model": Method(config=DraftModelConfig, build="drafters.draft_model:build_draft_model"),
    "dflash": Method(config=DFlashConfig, build="drafters.dflash:build_dflash", fusion=_BLOCK_FUSION),
    "dspark": Method(config=DSparkConfig, build="drafters.dspark:build_dspark", fusion=_BLOCK_FUSION),
    "eagle3": Method(config=Eagle3Config, build="drafters.eagle3:build_eagle3", fusion=_EAGLE_FUSION),
    "p_eagle": Method(config=PEagleConfig, build="drafters.p_eagle:build_p_eagle", fusion=_EAGLE_FUSION),
    "mixed": Method(
        config=MixedConfig,
        build="drafters.mixed_assembly:build_mixed",
        fusion="drafters.mixed_assembly:build_mixed_fusion",
    ),
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
    if kind is MixedConfig and "drafters" in given:
        parts = _parse_parts(given["drafters"])
        given = {"num_speculative_tokens": max(part.num_speculative_tokens for part in parts)} | given
        given["drafters"] = parts
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
    if isinstance(config, MixedConfig):
        return replace(config, drafters=tuple(_resolved_part(part, target) for part in config.drafters))
    return _resolved_part(config, target)


def build_drafter(config: DrafterConfig, context: DrafterContext) -> Drafter:
    """The drafter that a configuration describes; ValueError where it does not fit the target in `context`."""
    drafter: Drafter = _made(METHODS[_method_of(config)].build, config, context)
    return drafter


def build_fusion(config: DrafterConfig, context: DrafterContext) -> Fusion | None:
    """What the verifier runs for such a drafter, to send it features; None where it reads none."""
    maker = METHODS[_method_of(config)].fusion
    return None if maker is None else _made(maker, config, context)


def parts_of(config: DrafterConfig) -> tuple[Part, ...]:
    """The drafters that a configuration describes: those of a mixed one, else itself."""
    return config.drafters if isinstance(config, MixedConfig) else (config,)


def names_of(config: DrafterConfig) -> tuple[str, ...]:
    """Their methods, by which a request selects one of them."""
    return tuple(_method_of(part) for part in parts_of(config))


def _made(maker: str, config: DrafterConfig, context: DrafterContext) -> Any:
    return resolve_name(maker)(resolved(config, context.target), context)


def _parse_parts(given: object) -> tuple[Part, ...]:
    if not isinstance(given, list | tuple) or not given:
        raise ValueError(f"speculative_config: drafters is {given!r}; it must be a list of speculative_configs")
    parts: list[Part] = []
    for place, entry in enumerate(given):
        with named(place):
            keys = {"method": entry} if isinstance(entry, str) else entry
            if not isinstance(keys, Mapping):
                raise ValueError(f"{entry!r} is no speculative_config; give {{'method': …}}")
            part = parse_config(keys)
            if isinstance(part, MixedConfig):
                raise ValueError("method 'mixed' cannot be one of its own drafters; list those drafters themselves")
            if type(part) in map(type, parts):
                raise ValueError(f"method {keys['method']!r} is there already; give each method once")
        parts.append(part)
    return tuple(parts)


def _resolved_part(config: Part, target: str) -> Part:
    return with_weights(config, _method_of(config), target) if isinstance(config, ModelConfig) else config


def _method_of(config: DrafterConfig) -> str:
    for name, method in METHODS.items():
        if type(config) is method.config:
            return name
    raise ValueError(f"no method has a configuration of type {type(config).__name__}; use parse_config")
