"""A trained net given without its method is taken for a causal LM; the error names the method to add."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drafters.registry import build_drafter, parse_config
from drafters.shipped import WEIGHTS
from tests.drafters.featured import context


@pytest.mark.parametrize("method", ["dflash", "dspark", "eagle3", "p_eagle"])
def test_the_method_of_shipped_weights_is_named(checkpoint: Path, method: str) -> None:
    net = WEIGHTS / "smollm2-135m" / method
    given = parse_config({"method": "draft_model", "model": str(net)})
    with pytest.raises(ValueError, match=f'is no causal LM, but a net of method {method}; add "method": "{method}"$'):
        build_drafter(given, context(checkpoint))


def test_what_is_neither_keeps_its_own_error(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no_such_type"}))
    given = parse_config({"method": "draft_model", "model": str(tmp_path)})
    with pytest.raises(ValueError, match="no_such_type") as caught:
        build_drafter(given, context(checkpoint))
    assert "no causal LM" not in str(caught.value)
