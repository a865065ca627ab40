"""load: a target with its progress on the command's own status line."""

from __future__ import annotations

from collections.abc import Callable

from transformers.utils import logging

from modeling.target import Target, TargetSpec, load_target


def load(spec: TargetSpec, say: Callable[[str], None]) -> Target:
    """`load_target` without transformers' own bars, which would tear the status line."""
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return load_target(spec, progress=say)
