"""p_eagle: all tokens of a draft from one forward, as a plain loop makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protos.messages import Tokens
from protos.sampling_params import SamplingParams
from tests.drafters.eagle_drafters import Formula, build, save
from tests.drafters.featured import NOISY, REDUCED, TEXT, Expected, draft
from tests.drafters.featured_contract import FeaturedContract
from tests.fakes.eagle_nets import EAGLE_31
from tests.fakes.queries import GREEDY

SLOTS: dict[str, Any] = {"slots": "mask", "num_slots": 6}


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("net"), **SLOTS)


class TestPEagle(FeaturedContract):
    method = "p_eagle"

    def by_formula(self, text: Tokens, params: SamplingParams = GREEDY) -> Expected:
        return Formula(self.net, self.target).chain(text, params, 5, parallel=True)


@pytest.mark.parametrize(
    "changes",
    [SLOTS, SLOTS | {"slots": "fused", "draft_vocab": REDUCED}, SLOTS | EAGLE_31 | {"own_head": True}],
)
def test_drafts_follow_the_plain_loop(checkpoint: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    drafter = build("p_eagle", save(tmp_path, **changes), checkpoint)
    formula = Formula(tmp_path, checkpoint)
    for length, params in ((2, NOISY), (3, GREEDY), (17, GREEDY), (30, SamplingParams(seed=8))):
        chunk = draft(drafter, TEXT[:length], params=params)
        tokens, survival = formula.chain(TEXT[:length], params, 5, parallel=True)
        assert (chunk.tokens, chunk.source) == (tuple(tokens), "p_eagle")
        np.testing.assert_allclose(chunk.survival, survival, rtol=1e-3)
        drafter.close("r")


def test_one_forward_whatever_the_length(checkpoint: Path, net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drafter = build("p_eagle", net, checkpoint)
    widths: list[int] = []
    forward = drafter._model.net.forward

    def counted(embeds: Any, *rest: Any) -> Any:
        widths.append(embeds.shape[1])
        return forward(embeds, *rest)

    monkeypatch.setattr(drafter._model.net, "forward", counted)
    assert len(draft(drafter, TEXT[:4]).tokens) == 5
    assert len(draft(drafter, TEXT[:6], seen=4, budget=1).tokens) == 1
    assert widths == [3 + 4, 2]
