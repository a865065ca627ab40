"""eagle3 as a chain: drafts as a plain loop makes them, also where a text was cut, and what it refuses."""

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


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("net"))


class TestEagle3(FeaturedContract):
    method = "eagle3"

    def by_formula(self, text: Tokens, params: SamplingParams = GREEDY) -> Expected:
        return Formula(self.net, self.target).chain(text, params, 5)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"draft_vocab": REDUCED, "own_head": True},
        EAGLE_31 | {"draft_vocab": REDUCED},
        {"num_layers": 1, "own_head": True, "own_embedding": True},
    ],
)
def test_drafts_follow_the_plain_loop(checkpoint: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    drafter = build("eagle3", save(tmp_path, **changes), checkpoint)
    formula = Formula(tmp_path, checkpoint)
    for length, params in ((2, NOISY), (3, GREEDY), (17, GREEDY), (17, NOISY), (30, SamplingParams(seed=8))):
        chunk = draft(drafter, TEXT[:length], params=params)
        tokens, survival = formula.chain(TEXT[:length], params, 5)
        assert (chunk.tokens, chunk.source) == (tuple(tokens), "eagle3")
        assert chunk.parents == (-1, 0, 1, 2, 3)
        np.testing.assert_allclose(chunk.survival, survival, rtol=1e-3)
        drafter.close("r")


def test_a_text_that_was_only_cut_asks_for_its_last_token(checkpoint: Path, net: Path) -> None:
    """The feature that its draft begins with came with a token that was read two calls ago."""
    drafter, formula = build("eagle3", net, checkpoint), Formula(net, checkpoint)
    expected = formula.chain(TEXT[:9], GREEDY, 5)[0]
    draft(drafter, TEXT[:19])
    draft(drafter, TEXT[:20], seen=19)
    chunk = draft(drafter, TEXT[:9], seen=9)
    assert (chunk.tokens, chunk.need_from) == ((), 8)
    assert list(draft(drafter, TEXT[:9], seen=8).tokens) == expected
    assert list(draft(drafter, TEXT[:9], seen=9).tokens) == expected


def test_a_text_without_a_feature_has_no_draft(checkpoint: Path, net: Path) -> None:
    drafter = build("eagle3", net, checkpoint)
    chunk = draft(drafter, TEXT[:1])
    assert (chunk.tokens, chunk.need_from, chunk.error) == ((), None, "")
    assert draft(drafter, TEXT[:2], seen=1).tokens == draft(drafter, TEXT[:2], request_id="fresh").tokens != ()


@pytest.mark.parametrize(
    ("method", "changes", "keys", "message"),
    [
        ("p_eagle", {}, {}, "has no slots, it drafts token by token; use method eagle3"),
        ("eagle3", {"slots": "mask", "num_slots": 4}, {}, "drafts 4 tokens in one forward; use method p_eagle"),
        (
            "p_eagle",
            {"slots": "fused", "num_slots": 4},
            {},
            "is 5, but one forward of .* drafts 4",
        ),
        ("eagle3", {"hidden_size": 64}, {}, "hidden_size 64, but that of .* is 32"),
        ("eagle3", {"feature_layers": (0, 1)}, {}, "reads target layer 1, but .* has 1 layers"),
        ("eagle3", {}, {"draft_kv_cache_gib": 0.001}, "draft_kv_cache_gib"),
    ],
)
def test_refusals(
    checkpoint: Path, tmp_path: Path, method: str, changes: dict[str, Any], keys: dict[str, Any], message: str
) -> None:
    save(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        build(method, tmp_path, checkpoint, **keys)
