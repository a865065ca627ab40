"""The draft files that a drafter's configuration names, whether it is that of method cached or has such a part."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from drafters.cached_config import OF_THE_FILES, CachedConfig
from drafters.mixed_config import MixedConfig, Part
from drafters.registry import DrafterConfig, parts_of
from protos.draft_files import DraftFiles
from services.draft_files.opening import DirectoryOptions, directory_options, open_draft_files


def cached_part(config: DrafterConfig) -> CachedConfig | None:
    """The part that reads draft files; None where there is none."""
    return next((part for part in parts_of(config) if isinstance(part, CachedConfig)), None)


def configured_draft_files(config: DrafterConfig) -> DraftFiles | None:
    """Opened; None where the configuration has none. ValueError as in open_draft_files."""
    part = cached_part(config)
    return None if part is None else open_draft_files(part)


def configured_directory(config: DrafterConfig) -> DirectoryOptions | None:
    """The directory that the configuration names; None where it names a service, or has no draft files."""
    part = cached_part(config)
    return None if part is None else directory_options(part)


def at_service(config: DrafterConfig, address: str) -> DrafterConfig:
    """The same, its draft files those of the service at `address`."""
    if isinstance(config, MixedConfig):
        return replace(config, drafters=tuple(_part_at(part, address) for part in config.drafters))
    return _part_at(config, address)


def _part_at(part: Part, address: str) -> Part:
    if not isinstance(part, CachedConfig):
        return part
    own: dict[str, Any] = {key.name: key.default for key in fields(part) if key.name in OF_THE_FILES}
    return replace(part, draft_files=None, address=address, **own)
