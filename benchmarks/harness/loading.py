"""load, open_session: the target of a benchmark, and engines over it with or without a drafter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from benchmarks.harness.options import Options
from benchmarks.harness.session import Session
from modeling.target import Target, TargetSpec, load_target
from services.config import EngineArgs
from services.in_process import fusion_for, local_drafter
from verifier.engine import Engine

DTYPE_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def load(options: Options, dtype: str, *, slots: int, max_len: int = 2048) -> Target:
    """The target in one dtype, with memory for `slots` sequences of `max_len` tokens."""
    spec = TargetSpec(
        model=options.model,
        dtype=dtype,
        device=options.device,
        threads=options.threads,
        max_num_seqs=slots,
        max_model_len=max_len,
        kv_cache_gib=8.0,
    )
    return load_target(spec)


def open_session(target: Target, speculative_config: Mapping[str, Any] | None = None) -> Session:
    """An engine over the target, its drafter in this process. Several may share a target while only one runs."""
    options = {
        "model": target.name,
        "dtype": DTYPE_NAMES[target.dtype],
        "device": str(target.runner.device),
        "max_num_seqs": target.runner.num_slots,
        "speculative_config": speculative_config and {**speculative_config, "transport": "local"},
    }
    args = EngineArgs.model_validate(options)
    return Session(Engine(target, args.engine_config(), local_drafter(args, target), fusion_for(args, target)))
