"""p_eagle: all tokens of a draft from one forward, as a plain loop makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protos.interfaces import Drafter
from protos.sampling_params import SamplingParams
from tests.drafters.block_drafters import featured
from tests.drafters.eagle_drafters import Formula, build, draft, save
from tests.drafters.test_dflash import NOISY, REDUCED, TEXT, FeaturedContract
from tests.fakes.eagle_nets import EAGLE_31
from tests.fakes.queries import GREEDY, query

SLOTS: dict[str, Any] = {"slots": "mask", "num_slots": 6}


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("net"), **SLOTS)


class TestPEagle(FeaturedContract):
    @pytest.fixture(autouse=True)
    def _checkpoints(self, checkpoint: Path, net: Path) -> None:
        self.target, self.net = checkpoint, net

    def make_drafter(self) -> Drafter:
        return build("p_eagle", self.net, self.target)


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


def test_ragged_tails_and_rejections_leave_nothing(checkpoint: Path, net: Path) -> None:
    drafter, formula = build("p_eagle", net, checkpoint), Formula(net, checkpoint)
    texts = {"a": TEXT[:5], "b": TEXT[10:22]}
    seen = dict.fromkeys(texts, 0)
    for accepted in ({"a": 5, "b": 0}, {"a": 1, "b": 3}, {"a": 0, "b": 2}):
        asked = [
            featured(query(text, seen=seen[name], request_id=name), text[: seen[name]]) for name, text in texts.items()
        ]
        for chunk in drafter.draft(asked):
            name, text = chunk.request_id, texts[chunk.request_id]
            assert list(chunk.tokens) == formula.chain(text, GREEDY, 5, parallel=True)[0]
            seen[name], texts[name] = len(text), (*text, *chunk.tokens[: accepted[name]], 11)


def test_survival_ends_a_draft(checkpoint: Path, net: Path) -> None:
    whole = draft(build("p_eagle", net, checkpoint), TEXT, params=NOISY)
    cut = draft(build("p_eagle", net, checkpoint, min_survival=whole.survival[1]), TEXT, params=NOISY)
    assert cut.tokens == whole.tokens[:2]
