"""The weights that come with paradraft: drafters/weights/<target>/<method>/, each made by `paradraft train`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from drafters.model_config import ModelConfig

WEIGHTS = Path(__file__).with_name("weights")

Config = TypeVar("Config", bound=ModelConfig)


def shipped_weights(target: str) -> dict[str, Path]:
    """Method → folder of its weights for a target; empty where none ship for a target of that name."""
    # By comparing names: a target may be given by its path, which joined to another would replace it.
    targets = WEIGHTS.iterdir() if WEIGHTS.is_dir() else ()
    methods = (folder for each in targets if each.name == target for folder in each.iterdir())
    return {folder.name: folder for folder in sorted(methods) if (folder / "config.json").exists()}


def with_weights(config: Config, method: str, target: str) -> Config:
    """The configuration, its `model` the shipped weights where it names none; ValueError where there are none."""
    if config.model is not None:
        return config
    there = shipped_weights(target)
    if method not in there:
        others = f" (there are some for {', '.join(there)})" if there else ""
        raise ValueError(
            f"speculative_config: no weights of method {method!r} come with paradraft for target {target!r}{others}; "
            f"give the folder or name of some as `model`, or make them: "
            f"paradraft train {method} --target {target} --data ANSWERS --out FOLDER"
        )
    return replace(config, model=str(there[method]))
