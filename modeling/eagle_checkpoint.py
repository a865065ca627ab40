"""EAGLE nets on disk, and their first parts for the verifier."""

from __future__ import annotations

from pathlib import Path

from modeling.checkpoint_files import Checkpoint
from modeling.eagle_net import EagleNet, EagleNetConfig
from modeling.fusion import EagleFusion
from modeling.net_checkpoint import NetKind, check_demands, check_target, fill

__all__ = ["check_target", "load_eagle_fusion", "load_eagle_net", "read_config", "save_eagle_net"]

EAGLE_NETS = NetKind(name="EAGLE net", config=EagleNetConfig, model_type="paradraft_eagle_net")


def save_eagle_net(net: EagleNet, folder: Path) -> None:
    """Writes config.json and the weights, in bf16."""
    EAGLE_NETS.save(net, net.config, folder)


def read_config(checkpoint: Checkpoint) -> EagleNetConfig:
    """ValueError names the first thing in config.json that cannot be."""
    config = EAGLE_NETS.read_config(checkpoint)
    goes = config.num_slots >= 1 and (config.slots == "none") == (config.num_slots == 1)
    check_demands({f"slots {config.slots!r} does not go with num_slots {config.num_slots}": goes}, checkpoint.name)
    return config


def load_eagle_net(checkpoint: Checkpoint, config: EagleNetConfig) -> EagleNet:
    """The net with its weights, in their stored dtype, on the CPU."""
    net = EagleNet(config)
    fill(net, checkpoint, "")
    return net


def load_eagle_fusion(checkpoint: Checkpoint, config: EagleNetConfig) -> EagleFusion:
    """The verifier's part alone, in its stored dtype, on the CPU."""
    fusion = EagleFusion(config.feature_layers, config.hidden_size, config.rms_norm_eps, norm_taps=config.norm_taps)
    fill(fusion, checkpoint, "fusion.")
    return fusion
