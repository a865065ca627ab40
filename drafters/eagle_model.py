"""EagleModel: an EAGLE net between the target's embedding and LM head."""

from __future__ import annotations

from drafters.context import DrafterContext
from drafters.eagle_config import EagleConfig, PEagleConfig
from drafters.net_model import NetModel, load_fusion, make_model, open_files
from modeling.eagle_checkpoint import EAGLE_NETS
from modeling.eagle_net import EagleNet, EagleNetConfig
from modeling.fusion import NetFusion

EagleModel = NetModel[EagleNet]


def load_eagle_model(config: EagleConfig, context: DrafterContext) -> EagleModel:
    """Reads the net, and the target's ends where they are not given; ValueError where they do not fit each other, or
    the net is one for the other method."""
    files = open_files(EAGLE_NETS, config, context)
    _check_slots(files.shape, config)
    return make_model(EAGLE_NETS.load(files.checkpoint, files.shape), files.target, config, context)


def load_eagle_fusion(config: EagleConfig, context: DrafterContext) -> NetFusion:
    """The net's first part, for the process and the device of the target; ValueError where it does not fit it."""
    return load_fusion(EAGLE_NETS, config, context)


def _check_slots(shape: EagleNetConfig, config: EagleConfig) -> None:
    parallel = isinstance(config, PEagleConfig)
    if parallel and shape.slots == "none":
        raise ValueError(f"{config.weights!r} has no slots, it drafts token by token; use method eagle3")
    if not parallel and shape.slots != "none":
        raise ValueError(f"{config.weights!r} drafts {shape.num_slots} tokens in one forward; use method p_eagle")
    if parallel and config.num_speculative_tokens > shape.num_slots:
        raise ValueError(
            f"speculative_config: num_speculative_tokens is {config.num_speculative_tokens}, but one forward of "
            f"{config.weights!r} drafts {shape.num_slots}; ask for no more"
        )
