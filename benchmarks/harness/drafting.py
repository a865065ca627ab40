"""The drafters that compete, by name, and the speculative_config of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

LENGTH = 7
Config = Mapping[str, Any]


def _of(method: str, **keys: Any) -> Config:
    return {"method": method, **keys, "num_speculative_tokens": LENGTH}


CONTESTANTS: dict[str, Config] = {
    "suffix": _of("suffix"),
    "draft_model": _of("draft_model"),
    "eagle3": _of("eagle3"),
    "eagle3 tree": _of("eagle3", topk=3),
    "p_eagle": _of("p_eagle"),
    "dflash": _of("dflash"),
    "dspark": _of("dspark"),
    "mixed": _of("mixed", drafters=[_of("suffix"), _of("eagle3", min_survival=0.1)]),
}


def named_config(given: str) -> tuple[str, Config]:
    """A name of CONTESTANTS, or a speculative_config as JSON, with a label; ValueError for what is neither."""
    if given in CONTESTANTS:
        return given, CONTESTANTS[given]
    try:
        config = json.loads(given)
    except json.JSONDecodeError:
        raise ValueError(
            f"{given!r} is no drafter; known: {', '.join(CONTESTANTS)}; or give a speculative_config as JSON"
        ) from None
    if not isinstance(config, dict) or "method" not in config:
        raise ValueError(f"{given!r} is no speculative_config; give {{'method': …}}")
    return label(config), config


def label(config: Config) -> str:
    """The method and its keys, without where its weights lie."""
    keys = [f"{key}={value}" for key, value in config.items() if key not in {"method", "model", "drafters"}]
    return " ".join([config["method"], *keys])
