"""require: says in one line what an optional package is needed for, and how to install it."""

from __future__ import annotations

import importlib.util

INSTALL = "pip install -e '.[train]'"


def require(module: str, purpose: str) -> None:
    """ValueError where the module of the extra `train` is not installed."""
    if importlib.util.find_spec(module) is None:
        package = module.replace("_", "-")
        raise ValueError(f"{purpose} needs the package {package}; install it from the repository with `{INSTALL}`")
