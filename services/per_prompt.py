"""What is given with prompts, once for all of them or once for each, as one value for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protos.messages import Speculative
from protos.sampling_params import SamplingParams
from services.speculative_config import SpeculativeConfig
from services.speculative_options import SpeculativeFields

SpeculationGiven = Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None


def sampling_params_of(given: SamplingParams | Sequence[SamplingParams] | None, count: int) -> Sequence[SamplingParams]:
    """None means `SamplingParams()`. ValueError where something else is given, or not one for each."""
    if given is None or isinstance(given, SamplingParams):
        return [given or SamplingParams()] * count
    if isinstance(given, Mapping) or not all(isinstance(each, SamplingParams) for each in given):
        raise ValueError(f"{str(given)[:80]!r} is no sampling_params; give SamplingParams(…), or one for each prompt")
    _check_count("sampling_params", len(given), count)
    return given


def speculation_of(given: SpeculationGiven, count: int, config: SpeculativeConfig | None) -> list[Speculative]:
    """None means as configured. ValueError where a field or its value is none the HTTP API would take."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        _check_count("speculative", len(given), count)
        return [_speculation(each, config) for each in given]
    return [_speculation(given, config)] * count


def _speculation(given: object, config: SpeculativeConfig | None) -> Speculative:
    fields = dict(given) if isinstance(given, Mapping) else given
    return SpeculativeFields.read({"speculative": fields}).speculative.to_message(config)


def _check_count(name: str, given: int, prompts: int) -> None:
    if given != prompts:
        raise ValueError(f"{given} {name} for {prompts} prompts; give one, or one for each prompt")
