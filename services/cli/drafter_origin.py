"""DrafterOrigin: which target a drafter's weights were trained for, by the provenance.json beside them."""

from __future__ import annotations

from dataclasses import dataclass

from drafters.model_config import ModelConfig
from drafters.registry import DrafterConfig, resolved
from modeling.checkpoint_files import Checkpoint
from modeling.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterOrigin:
    """weights: their name or path. model, fingerprint, dtype: of the target, as training noted them."""

    weights: str
    model: str
    fingerprint: str
    dtype: str

    def is_foreign_to(self, target: Target) -> bool | None:
        """True for a target of other weights. None where that cannot be told: a fingerprint is of one precision."""
        if self.fingerprint == target.fingerprint:
            return False
        return True if self.dtype == str(target.dtype) else None


def drafter_origin(config: DrafterConfig, target: Target) -> DrafterOrigin | None:
    """None where the drafter has no weights, or they do not say what they were trained for."""
    if not isinstance(config, ModelConfig):
        return None
    with_weights = resolved(config, target.name)
    assert isinstance(with_weights, ModelConfig)
    noted = Checkpoint(with_weights.weights, config.revision).provenance.get("target")
    if not isinstance(noted, dict):
        return None
    known = {name: str(noted.get(name, "")) for name in ("model", "fingerprint", "dtype")}
    return DrafterOrigin(weights=with_weights.weights, **known)
