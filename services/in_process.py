"""local_drafter: the configured drafter beside its engine, in the same process."""

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
    context = DrafterContext(
        target=target.name,
        vocab_size=target.vocab_size,
        max_num_seqs=args.max_num_seqs,
        max_model_len=target.max_model_len,
        device=str(target.runner.device),
        dtype=args.dtype,
        threads=args.threads,
    )
    return LocalDrafter(build_drafter(args.speculative_config.drafter, context))
