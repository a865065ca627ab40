"""The layout of EAGLE-3 and P-EAGLE checkpoints in speculators format (github.com/vllm-project/speculators)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from modeling.checkpoint_files import Checkpoint
from modeling.eagle_net import EagleNetConfig
from modeling.layouts.eagle_sources import eagle_sources
from modeling.layouts.layout import Layout, Source, refuse, required
from modeling.layouts.speculators import algorithm, feature_layers, read_common, read_layers


def _recognises(checkpoint: Checkpoint) -> bool:
    return algorithm(checkpoint) in ("eagle3", "peagle")


def _configure(checkpoint: Checkpoint, target: Checkpoint | None) -> EagleNetConfig:
    given, layers = checkpoint.config, read_layers(checkpoint)
    if given.get("norm_before_fc", False) and given.get("fc_norm", False):
        raise refuse(checkpoint, "fc_norm", given["fc_norm"], "it excludes norm_before_fc")
    return EagleNetConfig(
        **read_common(checkpoint, layers),
        **(_slots(checkpoint) if algorithm(checkpoint) == "peagle" else {}),
        feature_layers=feature_layers(checkpoint, "eagle_aux_hidden_state_layer_ids", target),
        norm_taps=given.get("fc_norm", False),
        norm_joined=given.get("norm_before_fc", False),
        norm_residual=given.get("norm_before_residual", False),
        feed_normed=given.get("norm_output", False),
        qk_norm=layers.model_type == "qwen3",
    )


def _slots(checkpoint: Checkpoint) -> dict[str, Any]:
    """A forward drafts as many tokens as the proposal method asks for; a token's embedding and a feature are MASK."""
    mask, vocabulary = required(checkpoint, checkpoint.config, "mask_token_id"), read_layers(checkpoint).vocab_size
    if not 0 <= mask < vocabulary:
        raise refuse(checkpoint, "mask_token_id", mask, f"it must be below vocab_size {vocabulary}")
    methods = required(checkpoint, checkpoint.config, "speculators_config").get("proposal_methods") or [{}]
    count = methods[0].get("speculative_tokens")
    if not isinstance(count, int) or count < 2:
        why = "it says how many tokens a forward drafts, at least 2"
        raise refuse(checkpoint, "speculators_config.proposal_methods.speculative_tokens", count, why)
    return {"slots": "mask", "num_slots": count}


def _sources(checkpoint: Checkpoint, config: EagleNetConfig) -> dict[str, Source]:
    sources = eagle_sources(checkpoint, config)
    if config.slots == "mask":
        fusion = [names for ours, each in sources.items() if ours.startswith("fusion.") for names in each.names]
        sources["mask_embedding"] = Source(("embed_tokens.weight",), partial(_row, checkpoint.config["mask_token_id"]))
        norms = tuple(name for name in fusion if name != "fc.weight")
        sources["mask_feature"] = Source(("mask_hidden", "fc.weight", *norms), partial(_fused, config.rms_norm_eps))
    return sources


def _row(index: int, table: torch.Tensor) -> torch.Tensor:
    return table[index].clone()


def _fused(eps: float, taps: torch.Tensor, linear: torch.Tensor, *norms: torch.Tensor) -> torch.Tensor:
    """The feature of learned taps [1, 1, m * d]: they go through the same norms and the same linear as real ones."""
    joined = taps.flatten().double()
    if norms:
        parts = zip(joined.chunk(len(norms)), norms, strict=True)
        joined = torch.cat([F.rms_norm(part, part.shape, norm.double(), eps) for part, norm in parts])
    return (linear.double() @ joined).to(linear.dtype)


SPECULATORS_EAGLE = Layout(
    name="of speculators' EAGLE-3 and P-EAGLE", recognises=_recognises, configure=_configure, sources=_sources
)
