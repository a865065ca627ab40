"""FieldError: each bad sampling parameter tells its field, also where the message begins otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from protos.field_error import FieldError
from protos.sampling_params import SamplingParams


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"seed": 0.5}, "seed"),
        ({"stop": [""]}, "stop"),
        ({"stop": 3}, "stop"),
        ({"stop_token_ids": ["a"]}, "stop_token_ids"),
        ({"logit_bias": {-1: 1}}, "logit_bias"),
        ({"logit_bias": {1: 101}}, "logit_bias"),
        ({"min_tokens": 3, "max_tokens": 2}, "min_tokens"),
    ],
)
def test_the_field_is_carried(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        SamplingParams(**fields)
    assert caught.value.field == field
