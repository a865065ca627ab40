"""The configured drafter beside its engine in the same process, and what any drafter is told of its target."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from drafters.context import DrafterContext
from drafters.model_config import ModelConfig
from drafters.registry import build_drafter, build_fusion, parts_of
from modeling.features import Fusion
from modeling.fingerprint import tokenizer_print
from modeling.target import Target
from protos.draft_files import DraftFiles
from services.config import EngineArgs
from services.draft_files.configured import configured_draft_files
from services.transports.local import LocalDrafter


def local_drafter(args: EngineArgs, target: Target, draft_files: DraftFiles | None = None) -> LocalDrafter | None:
    """None without a `speculative_config`; ValueError where the drafter does not fit the target or the process.

    draft_files: those that a cached drafter works with, instead of the ones its configuration names; whoever gives
    them closes them.
    """
    speculative = args.speculative_config
    if speculative is None:
        return None
    if speculative.transport == "grpc" or speculative.socket is not None:
        raise ValueError(
            "speculative_config: transport grpc, with or without a socket, needs an actor for the drafter, and without "
            "Ray it can only run in this process; leave transport and socket out, or serve the model"
        )
    for part in parts_of(speculative.drafter):
        if isinstance(part, ModelConfig) and part.draft_threads is not None:
            raise ValueError(
                f"speculative_config: draft_threads is {part.draft_threads}, but in one process with the target it "
                "would change the target's threads too; leave it out, or serve with transport grpc"
            )
    context, ends = drafter_context(args, target, threads=args.threads), target.runner.ends
    with contextlib.ExitStack() as opened:
        if draft_files is None:
            draft_files = configured_draft_files(speculative.drafter)
            if draft_files is not None:
                opened.callback(draft_files.close)
        shared = replace(context, embedding=ends.embedding, lm_head=ends.lm_head, draft_files=draft_files)
        return LocalDrafter(build_drafter(speculative.drafter, shared), opened.pop_all())


def fusion_for(args: EngineArgs, target: Target) -> Fusion | None:
    """What the engine runs so that the configured drafter gets features; None where there is none, or it reads none."""
    if args.speculative_config is None:
        return None
    return build_fusion(args.speculative_config.drafter, drafter_context(args, target, threads=args.threads))


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
        hidden_size=target.config.hidden_size,
        num_layers=target.config.num_hidden_layers,
        fingerprint=target.fingerprint,
        tokenizer=tokenizer_print(target.tokenizer.backend_tokenizer.to_str()),
    )
