"""A mixed drafter and its fusion, of those of the drafters that compete."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from drafters.context import DrafterContext
from drafters.mixed import Mixed
from drafters.mixed_config import MixedConfig, named
from drafters.mixed_round import Source
from drafters.model_config import ModelConfig
from drafters.registry import build_drafter, build_fusion, names_of

if TYPE_CHECKING:
    from modeling.features import Fusion


def build_mixed(config: MixedConfig, context: DrafterContext) -> Mixed:
    """All its drafters, each with its columns of the joined features; ValueError names the one that does not fit."""
    sources, width = [], 0
    for place, part in enumerate(config.drafters):
        with named(place):
            # Only to know its width; the one that the verifier runs is where the target is.
            fusion = build_fusion(part, replace(context, device="cpu"))
            columns = None if fusion is None else slice(width, width + fusion.width)
            width = width if columns is None else columns.stop
            (name,) = names_of(part)
            source = Source(
                name=name,
                drafter=build_drafter(part, context),
                runs_model=isinstance(part, ModelConfig),
                longest=part.num_speculative_tokens,
                columns=columns,
            )
        sources.append(source)
    return Mixed(sources, max_requests=4 * context.max_num_seqs)


def build_mixed_fusion(config: MixedConfig, context: DrafterContext) -> Fusion | None:
    """The fusions of its drafters side by side; None where none of them reads features."""
    fusions = [fusion for part in config.drafters if (fusion := build_fusion(part, context)) is not None]
    if not fusions:
        return None
    from modeling.features import JoinedFusion  # torch: drafters without a model start without

    return JoinedFusion(fusions)
