"""dspark: each guess follows from the one before, and its survival from the confidence head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modeling.block_checkpoint import BLOCK_NETS
from protos.messages import Tokens
from protos.sampling_params import SamplingParams
from tests.drafters.block_drafters import build, by_formula
from tests.drafters.featured import NOISY, REDUCED, TEXT, Expected, draft
from tests.drafters.featured_contract import FeaturedContract
from tests.fakes.block_nets import DSPARK, random_net
from tests.fakes.queries import GREEDY


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("net")
    BLOCK_NETS.save(random_net(**DSPARK), folder)
    return folder


class TestDSpark(FeaturedContract):
    method = "dspark"

    def by_formula(self, text: Tokens, params: SamplingParams = GREEDY) -> Expected:
        return by_formula(self.net, self.target, text, params, 5)


class TestDSparkOfARecurrentHead(TestDSpark):
    """The head that keeps a state between the tokens of a draft."""

    @pytest.fixture
    def net(self, tmp_path: Path) -> Path:
        BLOCK_NETS.save(random_net(**(DSPARK | {"markov": "rnn", "draft_vocab": REDUCED})), tmp_path / "net")
        return tmp_path / "net"


@pytest.mark.parametrize("params", [GREEDY, NOISY, SamplingParams(temperature=1.5, seed=8)])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"draft_vocab": REDUCED, "markov": "gated"},
        {"draft_vocab": REDUCED, "markov": "rnn", "anchor_predicts": False},
        {"markov": "none", "markov_rank": 0},
        {"confidence": False},
    ],
)
def test_drafts_follow_the_formula(
    checkpoint: Path, tmp_path: Path, changes: dict[str, Any], params: SamplingParams
) -> None:
    BLOCK_NETS.save(random_net(**(DSPARK | changes)), tmp_path)
    drafter = build("dspark", tmp_path, checkpoint)
    for length in (1, 2, 17, 40):
        tokens, survival = by_formula(tmp_path, checkpoint, TEXT[:length], params, 5)
        chunk = draft(drafter, TEXT[:length], request_id=str(length), params=params)
        assert (chunk.tokens, chunk.source) == (tuple(tokens), "dspark")
        np.testing.assert_allclose(chunk.survival, survival, rtol=1e-3)
        drafter.close(str(length))


def test_survival_is_the_confidence_before_the_token(checkpoint: Path, net: Path) -> None:
    """The first estimate knows the anchor alone: it is the same whatever is drawn."""
    drafter = build("dspark", net, checkpoint)
    chunks = [draft(drafter, TEXT, params=SamplingParams(temperature=3, seed=i)) for i in range(8)]
    assert len({chunk.tokens[0] for chunk in chunks}) > 1
    assert len({chunk.survival[0] for chunk in chunks}) == 1
    assert len({chunk.survival[1] for chunk in chunks}) > 1
    for chunk in chunks:
        assert list(chunk.survival) == sorted(chunk.survival, reverse=True)
