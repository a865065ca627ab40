"""The configured drafter beside its engine in the same process, and what any drafter is told of its target."""

from __future__ import annotations

from drafters.context import DrafterContext
from drafters.registry import build_drafter
from modeling.target import Target
from services.config import EngineArgs
from services.transports.local import LocalDrafter


def local_drafter(args: EngineArgs, target: Target) -> LocalDrafter | None:
    """None without a `speculative_config`; ValueError where the drafter does not fit the target."""
    if args.speculative_config is None:
        return None
    context = drafter_context(args, target, threads=args.threads)
    return LocalDrafter(build_drafter(args.speculative_config.drafter, context))


def drafter_context(args: EngineArgs, target: Target, *, threads: int | None) -> DrafterContext:
    """What the drafter of a loaded target may know; `threads` are the drafter's own."""
    return DrafterContext(
        target=target.name,
        vocab_size=target.vocab_size,
        revision=args.revision,
        max_num_seqs=args.max_num_seqs,
        max_model_len=target.max_model_len,
        device=str(target.runner.device),
        dtype=args.dtype,
        threads=threads,
    )
