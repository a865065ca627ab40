"""Authors: who writes drafts ahead of traffic, as an engine: the target itself, or a trained drafter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from drafters.registry import build_drafter, build_fusion
from modeling.features import Fusion, JoinedFusion
from modeling.target import Target
from protos.draft_files import DraftFiles, Namespace
from services.draft_building.build_config import TARGET, BuildConfig
from services.draft_building.guesser import Guesser, Guesses
from services.in_process import drafter_context, fusion_for, local_drafter
from services.transports.local import LocalDrafter
from verifier.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """take_done: requests of which everything is stored, though their text goes on."""

    engine: Engine
    take_done: Callable[[], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filing:
    """Where what is written goes. max_paths: of one draft."""

    files: DraftFiles
    namespace: Namespace
    max_paths: int


def author_of(config: BuildConfig, target: Target, filing: Filing) -> Author:
    """ValueError where the drafter does not fit the target."""
    if config.author != TARGET:
        return _guessing(config, target, filing)
    drafter = local_drafter(config.args, target, filing.files)
    engine = Engine(target, config.args.engine_config(), drafter, fusion_for(config.args, target))
    return Author(engine=engine, take_done=list)


def _guessing(config: BuildConfig, target: Target, filing: Filing) -> Author:
    args = config.args
    assert args.speculative_config is not None, "the author"
    context, ends = drafter_context(args, target, threads=args.threads), target.runner.ends
    own = build_fusion(args.speculative_config.drafter, context)
    prefix = build_fusion(config.cached, context)
    width = 0 if own is None else own.width
    guesses = Guesses(
        namespace=filing.namespace,
        pooling=config.cached.pooling,
        own=None if own is None else slice(0, width),
        prefix=None if prefix is None else slice(width, width + prefix.width),
        max_paths=filing.max_paths,
        eos_ids=target.eos_ids,
    )
    shared = replace(context, embedding=ends.embedding, lm_head=ends.lm_head)
    guesser = Guesser(build_drafter(args.speculative_config.drafter, shared), filing.files, guesses)
    fusion = _joined([each for each in (own, prefix) if each is not None])
    engine = Engine(target, args.engine_config(), LocalDrafter(guesser), fusion)
    return Author(engine=engine, take_done=guesser.take_done)


def _joined(fusions: list[Fusion]) -> Fusion | None:
    return JoinedFusion(fusions) if fusions else None
