"""EAGLE_NETS: EAGLE nets on disk, their own and published ones, and their first parts for the verifier."""

from __future__ import annotations

from modeling.eagle_net import EagleNet, EagleNetConfig, eagle_fusion
from modeling.layouts.deepspec_eagle import DEEPSPEC_EAGLE
from modeling.layouts.safeailab import SAFEAILAB
from modeling.layouts.speculators_eagle import SPECULATORS_EAGLE
from modeling.net_checkpoint import NetKind


def _demands(config: EagleNetConfig) -> dict[str, bool]:
    goes = config.num_slots >= 1 and (config.slots == "none") == (config.num_slots == 1)
    return {f"slots {config.slots!r} does not go with num_slots {config.num_slots}": goes}


EAGLE_NETS = NetKind(
    name="EAGLE net",
    model_type="paradraft_eagle_net",
    config=EagleNetConfig,
    net=EagleNet,
    fusion=eagle_fusion,
    layouts=(SPECULATORS_EAGLE, DEEPSPEC_EAGLE, SAFEAILAB),
    demands=_demands,
)
