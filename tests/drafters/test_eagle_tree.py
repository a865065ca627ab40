"""eagle3's trees: the best nodes of all there are where every node is followed, those of EAGLE-2 where not."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from drafters.eagle_tree import EagleTree
from protos.draft import Draft
from protos.interfaces import Drafter
from protos.messages import DraftChunk
from protos.sampling_params import SamplingParams
from tests.drafters.eagle_drafters import Formula, Path_, build, paths_of, save
from tests.drafters.featured import NOISY, TEXT, draft, featured
from tests.drafters.featured_contract import FeaturedQueries
from tests.fakes.queries import GREEDY, query

FEW = (3, 77, 120, 9)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("net"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net that drafts four tokens only."""
    return save(tmp_path_factory.mktemp("small"), draft_vocab=FEW)


class TestEagleTree(FeaturedQueries):
    @pytest.fixture(autouse=True)
    def _checkpoints(self, checkpoint: Path, net: Path) -> None:
        self.target, self.net = checkpoint, net

    def make_drafter(self) -> Drafter:
        return build("eagle3", self.net, self.target, num_speculative_tokens=7, topk=3, depth=3)


def same_tree(chunk: DraftChunk, expected: Mapping[Path_, float]) -> None:
    assert len(Draft(request_id=chunk.request_id, base_len=chunk.base_len).extend(chunk)) == len(chunk.tokens)
    found = paths_of(chunk)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("params", [GREEDY, NOISY])
def test_brute_force(checkpoint: Path, small: Path, params: SamplingParams) -> None:
    """Wide enough, no node of three levels is missed: 4 + 16 + 64."""
    drafter = build("eagle3", small, checkpoint, num_speculative_tokens=20, topk=16, depth=3)
    formula, text = Formula(small, checkpoint), TEXT[:6]
    everything: dict[Path_, float] = formula.tree(text, params, topk=100, depth=3, nodes=1000)
    assert len(everything) == 84
    ranked = sorted(everything.items(), key=lambda each: -each[1])
    for budget in (20, 7, 1):
        same_tree(draft(drafter, text, params=params, budget=budget), dict(ranked[:budget]))


@pytest.mark.parametrize("params", [GREEDY, NOISY, SamplingParams(temperature=1.5, seed=8)])
def test_each_level_follows_the_best(checkpoint: Path, net: Path, params: SamplingParams) -> None:
    drafter, formula = build("eagle3", net, checkpoint, num_speculative_tokens=9, topk=2), Formula(net, checkpoint)
    for text in (TEXT[:2], TEXT[:12]):
        expected = formula.tree(text, params, topk=2, depth=7, nodes=9)
        same_tree(draft(drafter, text, params=params, budget=9), expected)
        drafter.close("r")


def test_trees_of_a_batch_after_rejections(checkpoint: Path, net: Path) -> None:
    """Of rows of other branches nothing remains either."""
    drafter = build("eagle3", net, checkpoint, num_speculative_tokens=8, topk=3, depth=3)
    formula = Formula(net, checkpoint)
    texts, params = {"a": TEXT[:4], "b": TEXT[10:21], "c": TEXT[3:5]}, {"a": GREEDY, "b": NOISY, "c": GREEDY}
    seen = dict.fromkeys(texts, 0)
    for accepted in (2, 0, 1):
        asked = [
            featured(query(text, seen=seen[name], request_id=name, params=params[name]), text[: seen[name]])
            for name, text in texts.items()
        ]
        for chunk in drafter.draft(asked):
            name, text = chunk.request_id, texts[chunk.request_id]
            same_tree(chunk, formula.tree(text, params[name], topk=3, depth=3, nodes=8))
            deepest = max(paths_of(chunk), key=len)
            seen[name], texts[name] = len(text), (*text, *deepest[:accepted], 11)


def test_min_survival_prunes(checkpoint: Path, net: Path) -> None:
    keys = {"num_speculative_tokens": 12, "topk": 3, "depth": 4}
    whole = paths_of(draft(build("eagle3", net, checkpoint, **keys), TEXT, budget=12))
    least = sorted(whole.values())[5]
    pruned = draft(build("eagle3", net, checkpoint, min_survival=least, **keys), TEXT, budget=12)
    assert paths_of(pruned) == pytest.approx({path: chance for path, chance in whole.items() if chance >= least})


def test_what_sampling_rules_out_is_not_proposed(checkpoint: Path, net: Path) -> None:
    """top_k 2 leaves two children to every node, top_k 1 a chain."""
    drafter = build("eagle3", net, checkpoint, num_speculative_tokens=30, topk=4, depth=3)
    two = draft(drafter, TEXT, budget=30, params=SamplingParams(temperature=1, seed=2, top_k=2))
    assert len(two.tokens) == 2 + 4 + 8
    assert all(two.parents.count(parent) <= 2 for parent in two.parents)
    one = draft(drafter, TEXT, budget=30, params=SamplingParams(temperature=1, seed=2, top_k=1))
    assert one.parents == (-1, 0, 1)


def test_a_certain_child_follows_its_parent() -> None:
    """Equal survival: the order of ties must not put a child before its parent, nor cut the parent only."""
    tree = EagleTree(batch=1, width=2, device=torch.device("cpu"))
    for level in range(3):
        width = 1 if level == 0 else 2
        tokens = torch.arange(2).expand(1, width, 2) + 2 * level
        tree.grow(tokens, torch.ones(1, width, 2, dtype=torch.float64))
    for limit in range(1, 9):
        ((tokens_of, parents, survival),) = tree.best([limit], 0.0)
        assert len(tokens_of) == len(parents) == len(survival) == limit
        assert all(parent < i for i, parent in enumerate(parents))
        assert all(first >= second for first, second in pairwise(survival))
