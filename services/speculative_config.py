"""SpeculativeConfig: who drafts and over which transport; the remaining keys are the method's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from drafters.registry import METHODS, DrafterConfig, names_of, parse_config, parts_of
from services.draft_files.absolute import absolute
from services.strict_model import StrictModel, suggestion

TRANSPORT_KEYS = ("transport", "socket", "draft_timeout_s")  # that are not the method's own


def joined_by_cached(given: Any, directory: str) -> dict[str, Any]:
    """What was given as `speculative_config`, in competition with draft files in a directory; these alone where it is
    none. ValueError where it has draft files already."""
    cached = {"method": "cached", "draft_files": str(absolute(directory))}
    if given in (None, "none", "null", {}):
        return cached
    if isinstance(given, SpeculativeConfig):
        given = given.model_dump(exclude_none=True)
    if not isinstance(given, str | Mapping):
        raise ValueError(f"speculative_config is {given!r}; it must be keys, the name of a method or none")
    config = {"method": given} if isinstance(given, str) else dict(given)
    mixed = config if config.get("method") == "mixed" else {"method": "mixed"}
    alone = {key: value for key, value in config.items() if key not in TRANSPORT_KEYS}
    drafters = listed(config) if mixed is config else [alone]
    if any(each.get("method") == "cached" for each in drafters):
        raise ValueError(
            f"draft_files is {directory!r}, but speculative_config has draft files of its own; give them in one place"
        )
    shared = {key: config[key] for key in TRANSPORT_KEYS if key in config}
    return mixed | shared | {"drafters": [*drafters, cached]}


def listed(mixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The drafters of method mixed by their keys. ValueError where they are no list of methods and their keys."""
    drafters = mixed.get("drafters")
    told = isinstance(drafters, list | tuple) and all(isinstance(each, str | Mapping) for each in drafters)
    if not drafters or not told:
        raise ValueError(f"speculative_config: drafters is {drafters!r}; it must be a list of speculative_configs")
    return [{"method": each} if isinstance(each, str) else dict(each) for each in drafters]


class SpeculativeConfig(StrictModel):
    """vLLM's `speculative_config`. The keys of a method are those of its configuration in `drafters.registry`.

    method: left out with a `model` given, it is draft_model. transport: `grpc`, the drafter in an actor of its own, or
    `local`, in the engine's process; None takes grpc in the served application and local in `LLM`. socket: where a grpc
    drafter listens: `unix` (None is the same), which only this user can open, or `tcp`, a free port of 127.0.0.1.
    draft_timeout_s: how long a step waits for drafts before it decodes plainly.
    """

    # The method decides which further keys there are; `_check_method_keys` refuses the others.
    model_config = ConfigDict(extra="allow", ignored_types=(cached_property,))

    method: str
    transport: Literal["local", "grpc"] | None = None
    socket: Literal["unix", "tcp"] | None = None
    draft_timeout_s: float = Field(default=0.25, gt=0, le=60)

    @model_validator(mode="before")
    @classmethod
    def _method_of_model(cls, data: Any) -> Any:
        if isinstance(data, dict) and "model" in data and data.get("method") is None:
            return data | {"method": "draft_model"}
        return data

    @model_validator(mode="after")
    def _check_socket(self) -> Self:
        if self.socket is not None and self.transport == "local":
            raise ValueError(f"socket is {self.socket!r}, but transport 'local' has none; leave socket out")
        return self

    @model_validator(mode="after")
    def _check_method_keys(self) -> Self:
        _ = self.drafter
        return self

    @cached_property
    def drafter(self) -> DrafterConfig:
        """The method's configuration; ValueError where a key or value is none of the method's."""
        given = self.model_extra or {}
        if self.method in METHODS:
            known = {field.name for field in fields(METHODS[self.method].config)} | set(type(self).model_fields)
            for key in set(given) - known:
                raise ValueError(f"unknown key {key!r}{suggestion(key, sorted(known))}")
        return parse_config({"method": self.method, **given})

    @property
    def methods(self) -> tuple[str, ...]:
        """Those of the drafters, by which a request selects one."""
        return names_of(self.drafter)

    @property
    def num_speculative_tokens(self) -> int:
        """The longest draft."""
        return self.drafter.num_speculative_tokens

    def longest_draft(self, method: str | None) -> int:
        """The longest draft of one of `methods`; None: of any of them."""
        parts = dict(zip(self.methods, parts_of(self.drafter), strict=True))
        own = self.num_speculative_tokens if method is None else parts[method].num_speculative_tokens
        return min(own, self.num_speculative_tokens)
