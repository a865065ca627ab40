"""dflash: blocks by the formula, in what they draw of and after a text was cut; the rest is the contract."""

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
from tests.fakes.block_nets import random_net
from tests.fakes.queries import GREEDY


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("net")
    BLOCK_NETS.save(random_net(), folder)
    return folder


class TestDFlash(FeaturedContract):
    method = "dflash"

    def by_formula(self, text: Tokens, params: SamplingParams = GREEDY) -> Expected:
        return by_formula(self.net, self.target, text, params, 5)


@pytest.mark.parametrize("params", [GREEDY, NOISY, SamplingParams(temperature=1.5, seed=8)])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"draft_vocab": REDUCED},
        {"anchor_predicts": False},
        {"mask_token_id": 3, "num_layers": 1},
    ],
)
def test_drafts_follow_the_formula(
    checkpoint: Path, tmp_path: Path, changes: dict[str, Any], params: SamplingParams
) -> None:
    BLOCK_NETS.save(random_net(**changes), tmp_path)
    drafter = build("dflash", tmp_path, checkpoint)
    for length in (1, 2, 17, 40):
        tokens, survival = by_formula(tmp_path, checkpoint, TEXT[:length], params, 5)
        chunk = draft(drafter, TEXT[:length], request_id=str(length), params=params)
        assert (chunk.tokens, chunk.source) == (tuple(tokens), "dflash")
        np.testing.assert_allclose(chunk.survival, survival, rtol=1e-3)
        drafter.close(str(length))


def test_a_reduced_vocabulary_proposes_its_own_ids(checkpoint: Path, tmp_path: Path) -> None:
    BLOCK_NETS.save(random_net(draft_vocab=REDUCED), tmp_path)
    drafter = build("dflash", tmp_path, checkpoint)
    drawn = {token for n in range(2, 40) for token in draft(drafter, TEXT[:n], params=NOISY, request_id=str(n)).tokens}
    assert len(drawn) > 10
    assert drawn <= set(REDUCED)


def test_truncated_sampling(checkpoint: Path, net: Path) -> None:
    """What leaves one token leaves the best; what rules out none changes nothing."""
    drafter = build("dflash", net, checkpoint)

    def drawn(**params: Any) -> tuple[int, ...]:
        return draft(drafter, TEXT, params=SamplingParams(**({"temperature": 2, "seed": 5} | params))).tokens

    best, free = draft(drafter, TEXT).tokens, drawn()
    assert best != free
    for params in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        assert drawn(**params) == best
    for params in ({"top_k": 250}, {"top_p": 0.999999}, {"min_p": 1e-30}):
        assert drawn(**params) == free


def test_a_temperature_next_to_nothing_is_greedy(checkpoint: Path, net: Path) -> None:
    drafter = build("dflash", net, checkpoint)
    chunk = draft(drafter, TEXT, params=SamplingParams(temperature=1e-44, seed=5))
    assert chunk.tokens == draft(drafter, TEXT).tokens
    assert chunk.survival == (1.0,) * 5


def test_a_text_that_was_only_cut(checkpoint: Path, net: Path) -> None:
    drafter = build("dflash", net, checkpoint)
    draft(drafter, TEXT[:20])
    assert list(draft(drafter, TEXT[:9], seen=9).tokens) == by_formula(net, checkpoint, TEXT[:9], GREEDY, 5)[0]
