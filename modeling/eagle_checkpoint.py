"""EAGLE nets on disk, their own and published ones, and their first parts for the verifier."""

from __future__ import annotations

from pathlib import Path

from modeling.checkpoint_files import Checkpoint
from modeling.eagle_net import EagleNet, EagleNetConfig, eagle_fusion
from modeling.fusion import EagleFusion
from modeling.layouts.deepspec_eagle import DEEPSPEC_EAGLE
from modeling.layouts.eagle3 import EAGLE3
from modeling.layouts.layout import find_layout
from modeling.layouts.speculators_eagle import SPECULATORS_EAGLE
from modeling.net_checkpoint import NetKind, check_demands, check_target, fill

__all__ = ["check_target", "load_eagle_fusion", "load_eagle_net", "read_config", "save_eagle_net"]

EAGLE_NETS = NetKind(name="EAGLE net", config=EagleNetConfig, model_type="paradraft_eagle_net")
LAYOUTS = (SPECULATORS_EAGLE, DEEPSPEC_EAGLE, EAGLE3)


def save_eagle_net(net: EagleNet, folder: Path) -> None:
    """Writes config.json and the weights, in bf16."""
    EAGLE_NETS.save(net, net.config, folder)


def read_config(checkpoint: Checkpoint, target: Checkpoint | None = None) -> EagleNetConfig:
    """ValueError names the first thing in config.json that cannot be.

    target: the net's, on whose depth it depends in some published ones which layers they read.
    """
    layout = find_layout(LAYOUTS, checkpoint)
    if layout is None:
        config = EAGLE_NETS.read_config(checkpoint)
    else:
        config = EAGLE_NETS.checked(layout.configure(checkpoint, target), checkpoint.name)
    goes = config.num_slots >= 1 and (config.slots == "none") == (config.num_slots == 1)
    check_demands({f"slots {config.slots!r} does not go with num_slots {config.num_slots}": goes}, checkpoint.name)
    return config


def load_eagle_net(checkpoint: Checkpoint, config: EagleNetConfig) -> EagleNet:
    """The net with its weights, in their stored dtype, on the CPU."""
    net, layout = EagleNet(config), find_layout(LAYOUTS, checkpoint)
    if layout is None:
        fill(net, checkpoint, "")
    else:
        layout.fill(net, checkpoint, config)
    return net


def load_eagle_fusion(checkpoint: Checkpoint, config: EagleNetConfig) -> EagleFusion:
    """The verifier's part alone, in its stored dtype, on the CPU."""
    fusion, layout = eagle_fusion(config), find_layout(LAYOUTS, checkpoint)
    if layout is None:
        fill(fusion, checkpoint, "fusion.")
    else:
        layout.fill(fusion, checkpoint, config, prefix="fusion.")
    return fusion
