"""What is checked before a block drafter drafts: its method, its length, its target, its path and device."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from modeling.block_checkpoint import BLOCK_NETS
from tests.drafters.block_drafters import build
from tests.fakes.block_nets import DSPARK, random_net


@pytest.mark.parametrize(
    ("method", "changes", "keys", "message"),
    [
        ("dflash", DSPARK, {}, r"has a Markov head \(vanilla\) or a confidence head \(True\).*use method dspark"),
        ("dspark", {}, {}, "has neither a Markov nor a confidence head; use method dflash"),
        ("dflash", {}, {"num_speculative_tokens": 7}, "num_speculative_tokens is 7, but a block of .* predicts 6"),
        ("dflash", {"anchor_predicts": False}, {"num_speculative_tokens": 6}, "is 6, but a block of .* predicts 5"),
        ("dspark", DSPARK | {"hidden_size": 64}, {}, "hidden_size 64, but that of .* is 32"),
        ("dspark", DSPARK | {"feature_layers": (0, 1)}, {}, "reads target layer 1, but .* has 1 layers"),
        ("dflash", {}, {"model": "/no/such/net"}, "'/no/such/net'"),
        ("dflash", {}, {"draft_device": "tpu"}, "tpu"),
        ("dflash", {}, {"draft_kv_cache_gib": 0.001}, "draft_kv_cache_gib"),
    ],
)
def test_refusals(
    checkpoint: Path, tmp_path: Path, method: str, changes: dict[str, Any], keys: dict[str, Any], message: str
) -> None:
    BLOCK_NETS.save(random_net(**changes), tmp_path)
    with pytest.raises(ValueError, match=message):
        build(method, tmp_path, checkpoint, **keys)


def test_fewer_slots_than_sequences_are_said(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    BLOCK_NETS.save(random_net(), tmp_path)
    with caplog.at_level(logging.WARNING):
        build("dflash", tmp_path, checkpoint, seqs=9, draft_kv_cache_gib=0.01)
    assert "draft_kv_cache_gib holds 5 of the 9 sequences" in caplog.text
