"""BuildConfig: who writes drafts ahead of traffic, what speeds that up, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cache_service.storage.budgets import UNBOUNDED
from drafters.cached_config import CachedConfig
from drafters.model_config import ModelConfig
from drafters.registry import METHODS, parse_config
from services.config import EngineArgs
from services.speculative_config import TRANSPORT_KEYS, listed

TARGET = "target"

Part = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildConfig:
    """args: of the engine; the drafter in them is the author, or one that drafts for the target from draft files among
    others. cached: how drafts are stored and found. author: `target`, or a method."""

    args: EngineArgs
    cached: CachedConfig
    author: str
    budget_bytes: int
    tenant_budget_bytes: int

    @classmethod
    def of(cls, options: Mapping[str, Any], *, directory: Path, author: str, budget_bytes: int | None) -> BuildConfig:
        """options: those of an engine. ValueError where an option contradicts another, or the author is none."""
        parts, shared = _parts(options.get("speculative_config"))
        stored = _stored(parts.pop("cached", {}), directory)
        cached = parse_config(stored)
        assert isinstance(cached, CachedConfig)
        tenant_budget_bytes = cached.tenant_budget_bytes
        drafter = _helped(parts, stored) if author == TARGET else _alone(parts, author)
        return cls(
            args=EngineArgs.model_validate({**options, "speculative_config": {**drafter, **shared}}),
            cached=cached,
            author=author,
            budget_bytes=stored.get("budget_bytes", UNBOUNDED) if budget_bytes is None else budget_bytes,
            tenant_budget_bytes=UNBOUNDED if tenant_budget_bytes is None else tenant_budget_bytes,
        )


def _parts(given: Any) -> tuple[dict[str, Part], dict[str, Any]]:
    """The drafters of a speculative_config by their methods, and the keys that all of them share."""
    if given in (None, "none", {}):
        return {}, {}
    if not isinstance(given, str | Mapping):
        raise ValueError(f"speculative_config is {given!r}; it must be keys, the name of a method or none")
    config = {"method": given} if isinstance(given, str) else dict(given)
    shared = {name: config.pop(name) for name in TRANSPORT_KEYS if name in config}
    if config.get("method") != "mixed":
        config.setdefault("method", "draft_model")  # as vLLM has it, where only a model is given
        return {config["method"]: config}, shared
    parts: dict[str, Part] = {str(part.get("method")): part for part in listed(config)}
    if len(parts) < len(config.pop("drafters", ())):
        raise ValueError("speculative_config: a method stands twice among the drafters; give each once")
    del config["method"]
    return parts, {**config, **shared}


def _stored(part: Part, directory: Path) -> dict[str, Any]:
    """The keys of the part that stores drafts."""
    named = part.get("draft_files", part.get("address"))
    if named is not None and Path(str(named)).expanduser().absolute() != directory.expanduser().absolute():
        raise ValueError(
            f"speculative_config: cached names {named!r}, but --draft-files is {str(directory)!r}; name one"
        )
    return {**part, "method": "cached", "draft_files": str(directory)}


def _helped(parts: Mapping[str, Part], stored: Part) -> dict[str, Any]:
    """Drafts of earlier answers help with the next ones, beside whatever else is configured."""
    return {"method": "mixed", "drafters": [*parts.values(), stored]} if parts else dict(stored)


def _alone(parts: Mapping[str, Part], author: str) -> dict[str, Any]:
    trained = sorted(name for name, method in METHODS.items() if issubclass(method.config, ModelConfig))
    if author not in trained:
        raise ValueError(f"--author {author!r} cannot write drafts; it must be {TARGET} or one of {', '.join(trained)}")
    others = sorted(set(parts) - {author})
    if others:
        raise ValueError(
            f"speculative_config: {', '.join(others)} would draft too, but --author {author} writes alone; leave it out"
        )
    return dict(parts.get(author, {"method": author}))
