"""DrafterOrigin: which target a drafter's weights were trained for, by the provenance.json beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drafters.model_config import ModelConfig
from drafters.registry import DrafterConfig, parts_of, resolved
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


def drafter_origins(config: DrafterConfig, target: Target) -> Iterator[DrafterOrigin]:
    """One for each of a configuration's drafters whose weights say what they were trained for."""
    for part in parts_of(resolved(config, target.name)):
        if isinstance(part, ModelConfig):
            noted = Checkpoint(part.weights, part.revision).provenance.get("target")
            if isinstance(noted, dict):
                known = {name: str(noted.get(name, "")) for name in ("model", "fingerprint", "dtype")}
                yield DrafterOrigin(weights=part.weights, **known)
