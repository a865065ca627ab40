"""mixed of real drafters: the contract, joined features, and the target's own text whatever a request selects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drafters.mixed import Mixed
from drafters.mixed_config import MixedConfig
from drafters.registry import build_drafter, build_fusion, parse_config, resolved
from modeling.block_checkpoint import BLOCK_NETS
from modeling.features import JoinedFusion
from modeling.target import TargetSpec, load_target
from protos.interfaces import Drafter
from protos.messages import DraftQuery, Speculative
from services.config import EngineArgs
from services.in_process import local_drafter
from services.transports.local import LocalDrafter
from tests.drafters.block_drafters import build
from tests.drafters.featured import context, featured
from tests.drafters.featured_contract import FeaturedQueries
from tests.fakes.block_nets import DSPARK, random_net
from tests.fakes.queries import query
from tests.fakes.requests import request
from tests.fakes.running import run
from verifier.engine import Engine
from verifier.engine_config import EngineConfig

TEXT = tuple((7 * i) % 250 for i in range(30))


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("nets")
    BLOCK_NETS.save(random_net(), folder / "dflash")
    BLOCK_NETS.save(random_net(seed=1, **DSPARK), folder / "dspark")
    return {name: str(folder / name) for name in ("dflash", "dspark")}


def entries(nets: dict[str, str]) -> dict[str, Any]:
    learned = [{"method": name, "model": model, "num_speculative_tokens": 5} for name, model in nets.items()]
    return {"method": "mixed", "drafters": [{"method": "suffix", "num_speculative_tokens": 6}, *learned]}


def doubled(one: DraftQuery, before: tuple[int, ...] = ()) -> DraftQuery:
    """Features for two drafters: of each the second's are those of the token before."""
    first = featured(one, before).features
    second = featured(replace(one, tail=tuple(token + 1 for token in one.tail)), tuple(t + 1 for t in before)).features
    assert first is not None
    assert second is not None
    return replace(one, features=np.concatenate((first, second), axis=1))


class TestContract(FeaturedQueries):
    """A model that never gets it right beside a model-free source that does, here."""

    @pytest.fixture(autouse=True)
    def _checkpoints(self, checkpoint: Path, nets: dict[str, str]) -> None:
        self.target, self.nets = checkpoint, nets

    def make_drafter(self) -> Drafter:
        learned = {"method": "dflash", "model": self.nets["dflash"], "num_speculative_tokens": 1}
        given = {"method": "mixed", "drafters": [learned, {"method": "suffix"}]}
        return build_drafter(parse_config(given), context(self.target))


class TestContractOfOneSelected(TestContract):
    """The same, but each request names the learned one."""

    def _featured(self, query: DraftQuery) -> DraftQuery:
        return replace(super()._featured(query), method="dflash")


def test_each_reads_its_part_of_the_features(checkpoint: Path, nets: dict[str, str]) -> None:
    drafter = build_drafter(parse_config(entries(nets)), context(checkpoint))
    assert isinstance(drafter, Mixed)
    alone = {name: build(name, Path(model), checkpoint) for name, model in nets.items()}
    for seen, length in ((0, 12), (12, 13), (13, 19)):
        for name in nets:
            one = replace(query(TEXT[:length], seen=seen, request_id=name), method=name)
            (chunk,) = drafter.draft([doubled(one, TEXT[:seen])])
            columns = slice(0, 32) if name == "dflash" else slice(32, 64)
            features = doubled(one, TEXT[:seen]).features
            assert features is not None
            (expected,) = alone[name].draft([replace(one, features=np.ascontiguousarray(features[:, columns]))])
            assert chunk == expected
            assert len(chunk.tokens) == 5


def test_wrong_features_spoil_only_who_reads_them(checkpoint: Path, nets: dict[str, str]) -> None:
    drafter = build_drafter(parse_config(entries(nets)), context(checkpoint))
    chunks = list(drafter.draft([replace(doubled(query(TEXT[:8] * 3)), features=None)]))
    assert [chunk.error[:7] for chunk in chunks] == ["dflash:", "dspark:", ""]
    assert chunks[-1].source == "suffix"
    assert chunks[-1].tokens


def test_a_layer_that_several_tap_is_tapped_once(checkpoint: Path, tmp_path: Path) -> None:
    taps = {layer: torch.randn(3, 32) for layer in range(4)}
    parts = [random_net(seed=i, feature_layers=layers).fusion for i, layers in enumerate(((0, 2), (1, 2)))]
    joined = JoinedFusion(parts)
    assert (joined.layers, joined.width) == ((0, 1, 2), 64)
    fused = joined([taps[layer] for layer in joined.layers])
    for i, part in enumerate(parts):
        torch.testing.assert_close(fused[:, 32 * i : 32 * (i + 1)], part([taps[layer] for layer in part.layers]))


def test_model_free_drafters_need_no_fusion(checkpoint: Path) -> None:
    given = {"method": "mixed", "drafters": [{"method": "suffix"}, {"method": "draft_model", "model": str(checkpoint)}]}
    assert build_fusion(parse_config(given), context(checkpoint)) is None


def test_a_draft_model_reads_a_long_text_without_drafting(checkpoint: Path) -> None:
    """With budget 0 a long tail is read, piece by piece; a short one waits for the next draft's forward."""
    given = {"method": "draft_model", "model": str(checkpoint), "num_speculative_tokens": 3}
    drafter = build_drafter(parse_config(given), context(checkpoint))
    text = tuple(i % 250 for i in range(300))
    for length in (300, 301, 302):
        (chunk,) = drafter.draft([query((*text, 1, 2)[:length], seen=0 if length == 300 else length - 1, budget=0)])
        assert (chunk.tokens, chunk.need_from) == ((), None)
    (chunk,) = drafter.draft([query((*text, 1, 2, 3), seen=302, budget=3)])
    assert chunk.tokens


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_text_is_the_targets_whatever_is_selected(checkpoint: Path, nets: dict[str, str], temperature: float) -> None:
    """All selections together in one batch, so that in each call some need a source and some do not."""
    target = load_target(
        TargetSpec(model=str(checkpoint), dtype="fp32", device="cpu", max_num_seqs=6, kv_cache_gib=0.1)
    )
    config, told = parse_config(entries(nets)), context(checkpoint, max_num_seqs=6)
    selections = [None, "suffix", "dflash", "dspark"]
    requests = [
        request(str(method), temperature=temperature, max_tokens=40, speculative=Speculative(method=method))
        for method in selections
    ]
    plain = run(Engine(target, EngineConfig()), requests)
    drafter = LocalDrafter(build_drafter(config, told))
    limits = EngineConfig(num_speculative_tokens=5, draft_timeout_s=60)
    engine = Engine(target, limits, drafter, build_fusion(config, told))
    drafted = run(engine, requests)
    assert {name: each.tokens for name, each in drafted.items()} == {name: each.tokens for name, each in plain.items()}
    assert drafter.status().counters["errors"] == 0
    for method in ("suffix", "dflash", "dspark"):
        assert set(drafted[method].stats.speculation.sources) <= {method}
    assert drafted["dflash"].stats.speculation.num_drafts > 0


MODEL = {"method": "draft_model", "model": "m"}


@pytest.mark.parametrize(
    ("drafters", "message"),
    [
        (None, "drafters is None; it must be a list"),
        ([], "drafters is []"),
        ("suffix", "drafters is 'suffix'"),
        ([7], "drafters[0]: 7 is no speculative_config"),
        (["sufix"], "drafters[0]: method 'sufix' is unknown"),
        ([{"method": "suffix"}, {"method": "sufix"}], "drafters[1]: method 'sufix' is unknown"),
        ([{"method": "suffix"}, {"method": "suffix"}], "drafters[1]: method 'suffix' is there already"),
        ([MODEL, {"method": "suffix", "model": "m"}], "drafters[1]: key 'model' is unknown to method 'suffix'"),
        ([MODEL | {"draft_threads": 0}], "drafters[0]: draft_threads is 0"),
        ([{"method": "mixed", "drafters": [MODEL]}], "drafters[0]: method 'mixed' cannot be one of its own"),
        (
            [MODEL | {"draft_threads": 1}, {"method": "dflash", "draft_threads": 2}],
            "draft_threads of the drafters are 1 and 2",
        ),
    ],
)
def test_errors_name_the_entry(drafters: object, message: str) -> None:
    with pytest.raises(ValueError, match=r"^speculative_config: ") as caught:
        parse_config({"method": "mixed", "drafters": drafters})
    assert message in str(caught.value)


def test_mixed_without_drafters_and_with_a_foreign_key() -> None:
    with pytest.raises(ValueError, match="method 'mixed' needs the key 'drafters'"):
        parse_config({"method": "mixed"})
    with pytest.raises(ValueError, match="key 'model' is unknown to method 'mixed'"):
        parse_config({"method": "mixed", "model": "m", "drafters": [MODEL]})


def test_length_is_the_longest_unless_given() -> None:
    drafters = [{"method": "suffix", "num_speculative_tokens": 9}, MODEL]
    longest = parse_config({"method": "mixed", "drafters": drafters})
    assert isinstance(longest, MixedConfig)
    assert longest.num_speculative_tokens == 9
    assert parse_config({"method": "mixed", "drafters": drafters, "num_speculative_tokens": 4}) == replace(
        longest, num_speculative_tokens=4
    )
    with pytest.raises(ValueError, match="num_speculative_tokens is 0"):
        parse_config({"method": "mixed", "drafters": drafters, "num_speculative_tokens": 0})


def test_weights_that_do_not_ship_are_missed_before_anything_is_loaded() -> None:
    config = parse_config({"method": "mixed", "drafters": [{"method": "suffix"}, {"method": "dspark"}]})
    with pytest.raises(ValueError, match="no weights of method 'dspark'"):
        resolved(config, "no-such-target")


def test_a_drafter_that_does_not_fit_is_named(checkpoint: Path, nets: dict[str, str]) -> None:
    given = {"method": "mixed", "drafters": [{"method": "suffix"}, {"method": "dflash", "model": nets["dspark"]}]}
    with pytest.raises(ValueError, match=r"drafters\[1\]: num_speculative_tokens is 7, but a block of .* predicts 6"):
        build_drafter(parse_config(given), context(checkpoint))


def test_the_parts_decide_what_the_process_gets(checkpoint: Path, nets: dict[str, str]) -> None:
    given = entries(nets)
    given["drafters"][1] |= {"draft_threads": 3}
    args = EngineArgs.model_validate({"model": str(checkpoint), "speculative_config": given})
    target = load_target(
        TargetSpec(model=str(checkpoint), dtype="fp32", device="cpu", max_num_seqs=1, kv_cache_gib=0.1)
    )
    with pytest.raises(ValueError, match="draft_threads is 3, but in one process"):
        local_drafter(args, target)
