"""The drafters by method name, and their configuration in the keys of vLLM's `speculative_config`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from drafters.block_config import BlockConfig, DFlashConfig, DSparkConfig
from drafters.context import DrafterContext
from drafters.draft_model_config import DraftModelConfig
from drafters.eagle_config import Eagle3Config, EagleConfig, PEagleConfig
from drafters.mixed_config import MixedConfig, Part
from drafters.model_config import ModelConfig
from drafters.shipped import with_weights
from drafters.suffix import build_suffix
from drafters.suffix_config import SuffixConfig
from protos.interfaces import Drafter

if TYPE_CHECKING:
    from modeling.features import Fusion

DrafterConfig = Part | MixedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to guess: the dataclass that holds its keys, and what makes a drafter of them."""

    config: type[Any]
    build: Callable[[Any, DrafterContext], Drafter]
    fusion: Callable[[Any, DrafterContext], Fusion | None] | None = None


def _build_draft_model(config: DraftModelConfig, context: DrafterContext) -> Drafter:
    from drafters.draft_model import build_draft_model  # torch and transformers: a model-free drafter starts without

    return build_draft_model(config, context)


def _build_dflash(config: DFlashConfig, context: DrafterContext) -> Drafter:
    from drafters.dflash import build_dflash

    return build_dflash(config, context)


def _build_dspark(config: DSparkConfig, context: DrafterContext) -> Drafter:
    from drafters.dspark import build_dspark

    return build_dspark(config, context)


def _build_eagle3(config: Eagle3Config, context: DrafterContext) -> Drafter:
    from drafters.eagle3 import build_eagle3

    return build_eagle3(config, context)


def _build_p_eagle(config: PEagleConfig, context: DrafterContext) -> Drafter:
    from drafters.p_eagle import build_p_eagle

    return build_p_eagle(config, context)


def _block_fusion(config: BlockConfig, context: DrafterContext) -> Fusion:
    from drafters.block_model import read_fusion

    return read_fusion(config, context)


def _eagle_fusion(config: EagleConfig, context: DrafterContext) -> Fusion:
    from drafters.eagle_model import read_eagle_fusion

    return read_eagle_fusion(config, context)


def _build_mixed(config: MixedConfig, context: DrafterContext) -> Drafter:
    from drafters.mixed import Mixed
    from drafters.mixed_round import Source

    sources, width = [], 0
    for place, part in enumerate(config.drafters):
        with _named(place):
            # Only to know its width; the one that the verifier runs is where the target is.
            fusion = build_fusion(part, replace(context, device="cpu"))
            columns = None if fusion is None else slice(width, width + fusion.width)
            width = width if columns is None else columns.stop
            source = Source(
                name=_method_of(part)[0],
                drafter=build_drafter(part, context),
                runs_model=isinstance(part, ModelConfig),
                longest=part.num_speculative_tokens,
                columns=columns,
            )
        sources.append(source)
    return Mixed(sources, max_requests=4 * context.max_num_seqs)


def _mixed_fusion(config: MixedConfig, context: DrafterContext) -> Fusion | None:
    fusions = [fusion for part in config.drafters if (fusion := build_fusion(part, context)) is not None]
    if not fusions:
        return None
    from modeling.features import JoinedFusion

    return JoinedFusion(fusions)


METHODS: dict[str, Method] = {
    "suffix": Method(config=SuffixConfig, build=build_suffix),
    "draft_model": Method(config=DraftModelConfig, build=_build_draft_model),
    "dflash": Method(config=DFlashConfig, build=_build_dflash, fusion=_block_fusion),
    "dspark": Method(config=DSparkConfig, build=_build_dspark, fusion=_block_fusion),
    "eagle3": Method(config=Eagle3Config, build=_build_eagle3, fusion=_eagle_fusion),
    "p_eagle": Method(config=PEagleConfig, build=_build_p_eagle, fusion=_eagle_fusion),
    "mixed": Method(config=MixedConfig, build=_build_mixed, fusion=_mixed_fusion),
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
    _, method = _method_of(config)
    return method.build(resolved(config, context.target), context)


def build_fusion(config: DrafterConfig, context: DrafterContext) -> Fusion | None:
    """What the verifier runs for such a drafter, to send it features; None where it reads none."""
    _, method = _method_of(config)
    return None if method.fusion is None else method.fusion(resolved(config, context.target), context)


def parts_of(config: DrafterConfig) -> tuple[Part, ...]:
    """The drafters that a configuration describes: those of a mixed one, else itself."""
    return config.drafters if isinstance(config, MixedConfig) else (config,)


def names_of(config: DrafterConfig) -> tuple[str, ...]:
    """Their methods, by which a request selects one of them."""
    return tuple(_method_of(part)[0] for part in parts_of(config))


def _parse_parts(given: object) -> tuple[Part, ...]:
    if not isinstance(given, list | tuple) or not given:
        raise ValueError(f"speculative_config: drafters is {given!r}; it must be a list of speculative_configs")
    parts: list[Part] = []
    for place, entry in enumerate(given):
        with _named(place):
            if not isinstance(entry, Mapping):
                raise ValueError(f"{entry!r} is no speculative_config; give {{'method': …}}")
            part = parse_config(entry)
            if isinstance(part, MixedConfig):
                raise ValueError("method 'mixed' cannot be one of its own drafters; list those drafters themselves")
            if type(part) in map(type, parts):
                raise ValueError(f"method {entry['method']!r} is there already; give each method once")
        parts.append(part)
    return tuple(parts)


@contextmanager
def _named(place: int) -> Iterator[None]:
    """Errors say which entry of `drafters` they are about."""
    try:
        yield
    except ValueError as error:
        reason = str(error).removeprefix("speculative_config: ")
        raise ValueError(f"speculative_config: drafters[{place}]: {reason}") from error


def _resolved_part(config: Part, target: str) -> Part:
    name, _ = _method_of(config)
    return with_weights(config, name, target) if isinstance(config, ModelConfig) else config


def _method_of(config: DrafterConfig) -> tuple[str, Method]:
    for name, method in METHODS.items():
        if type(config) is method.config:
            return name, method
    raise ValueError(f"no method has a configuration of type {type(config).__name__}; use parse_config")
