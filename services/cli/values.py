"""What the user gave, from a YAML file and from options, as one mapping for the schema to judge."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

import typer
import yaml

from drafters.shipped import shipped_weights
from services.config import EngineArgs

SUFFIX: Mapping[str, Any] = {"method": "suffix", "num_speculative_tokens": 8}
LEARNED: Mapping[str, Any] = {"method": "eagle3", "min_survival": 0.1}  # a step of it costs a tenth of a verification


def merged(model: str | None, options: Mapping[str, object], config: Path | None = None) -> dict[str, Any]:
    """Options win over the file, and the file over the default drafter. ValueError where the file cannot be read."""
    values = ({} if config is None else _from_yaml(config)) | given(options)
    values.setdefault(
        "speculative_config", default_drafter(model or values.get("model", EngineArgs.model_fields["model"].default))
    )
    return values if model is None else values | {"model": model}


def default_drafter(model: Any) -> Mapping[str, Any]:
    """Suffix matches, which any target can have; where a learned drafter ships for the model, both compete.

    In the target's own process: guessing and verifying take turns, so each can have all threads of a small machine.
    """
    if LEARNED["method"] not in shipped_weights(str(model)):
        return SUFFIX
    return {"method": "mixed", "transport": "local", "drafters": [dict(SUFFIX), dict(LEARNED)]}


def given(options: Mapping[str, object], *, among: Container[str] | None = None) -> dict[str, Any]:
    """The options the user gave a value, all or those `among` the names."""
    return {
        name: value for name, value in options.items() if value not in (None, []) and (among is None or name in among)
    }


def parse_mapping(text: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """A JSON object, or `none` for an empty one; BadParameter says what is wrong with it."""
    if not isinstance(text, str):
        return text
    if text.strip() in {"none", "null"}:
        return {}
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise typer.BadParameter('not a JSON object; it looks like {"key": "value"}')
    return value


def parse_speculation(text: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """As `parse_mapping`, but a bare word is left to the schema: the name of a method, or `none`."""
    if isinstance(text, str) and text.strip().isidentifier():
        return text.strip()
    return parse_mapping(text)


def _from_yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ValueError(f"--config {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"--config {path} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"--config {path} must hold a mapping such as 'model: smollm2-135m'")
    return content
