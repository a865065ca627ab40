"""Methods and keys: the known ones work, the others are named in the error."""

from __future__ import annotations

import subprocess
import sys
from pkgutil import resolve_name

import pytest

from drafters.block_config import DFlashConfig, DSparkConfig
from drafters.context import DrafterContext
from drafters.draft_model_config import DraftModelConfig
from drafters.eagle_config import Eagle3Config, PEagleConfig
from drafters.registry import METHODS, build_drafter, parse_config
from drafters.suffix import SuffixDrafter
from drafters.suffix_config import SuffixConfig
from tests.fakes.queries import query

CONTEXT = DrafterContext(target="smollm2-135m", vocab_size=100)


def test_configuration_of_each_method() -> None:
    assert parse_config({"method": "suffix", "num_speculative_tokens": 3}) == SuffixConfig(num_speculative_tokens=3)
    given = {"method": "draft_model", "model": "m", "draft_dtype": "bf16"}
    assert parse_config(given) == DraftModelConfig(model="m", draft_dtype="bf16")
    assert parse_config({"method": "dflash", "model": "m"}) == DFlashConfig(model="m", num_speculative_tokens=7)
    assert parse_config({"method": "dspark", "model": "m"}) == DSparkConfig(model="m", num_speculative_tokens=7)
    trees = parse_config({"method": "eagle3", "model": "m", "topk": 4, "depth": 3})
    assert trees == Eagle3Config(model="m", num_speculative_tokens=7, topk=4, depth=3)
    assert parse_config({"method": "p_eagle", "model": "m"}) == PEagleConfig(model="m", num_speculative_tokens=7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "method None is unknown; known: cached, dflash, draft_model, dspark, eagle3, mixed, p_eagle, suffix"),
        (
            {"method": "sufix"},
            "method 'sufix' is unknown; known: cached, dflash, draft_model, dspark, eagle3, mixed, p_eagle, suffix",
        ),
        ({"method": ["suffix"]}, "is unknown"),
        (
            {"method": "suffix", "num_spec_tokens": 3},
            "key 'num_spec_tokens' is unknown to method 'suffix'; known: ",
        ),
        ({"method": "suffix", "model": "m"}, "key 'model' is unknown"),
        ({"method": "draft_model", "model": ""}, "model is ''"),
        ({"method": "draft_model", "model": "m", "draft_dtype": "int3"}, "draft_dtype is 'int3'; it must be one of"),
        ({"method": "draft_model", "model": "m", "num_speculative_tokens": 0}, "num_speculative_tokens is 0"),
        ({"method": "draft_model", "model": "m", "draft_threads": 0}, "draft_threads is 0"),
        ({"method": "suffix", "num_speculative_tokens": True}, "num_speculative_tokens is True; it must be a whole"),
        ({"method": "suffix", "num_speculative_tokens": 2.5}, "it must be a whole number"),
        ({"method": "suffix", "suffix_decoding_min_token_prob": 2}, "from 0 to 1"),
        ({"method": "suffix", "suffix_decoding_min_token_prob": float("nan")}, "from 0 to 1"),
        ({"method": "suffix", "num_branches": "2"}, "num_branches is '2'"),
        ({"method": "eagle3", "topk": 0}, "topk is 0"),
        ({"method": "eagle3", "depth": 3}, "depth is 3, but topk 1 makes no trees"),
        ({"method": "eagle3", "topk": 4, "depth": 8}, "depth is 8; it must be a whole number from 1 to 7"),
        ({"method": "eagle3", "num_speculative_tokens": 65}, "num_speculative_tokens is 65"),
        ({"method": "p_eagle", "topk": 2}, "key 'topk' is unknown to method 'p_eagle'"),
    ],
)
def test_errors_name_the_value_and_the_known_ones(given: dict[str, object], message: str) -> None:
    """Case L5: no key is silently without effect."""
    with pytest.raises(ValueError, match="speculative_config") as caught:
        parse_config(given)
    assert message in str(caught.value)


def test_every_method_has_a_length() -> None:
    assert all("num_speculative_tokens" in method.config.__dataclass_fields__ for method in METHODS.values())


def test_what_makes_drafters_and_fusions_is_there() -> None:
    makers = [maker for each in METHODS.values() for maker in (each.build, each.fusion) if maker is not None]
    assert all(callable(resolve_name(maker)) for maker in makers)


@pytest.mark.parametrize("given", [{"method": "suffix"}, {"method": "mixed", "drafters": [{"method": "suffix"}]}])
def test_a_drafter_without_a_model_starts_without_torch(given: dict[str, object]) -> None:
    probe = (
        "import sys; from drafters.context import DrafterContext; from drafters.registry import *\n"
        f"config, context = parse_config({given}), DrafterContext(target='t', vocab_size=100)\n"
        "print(build_fusion(config, context), type(build_drafter(config, context)).__name__)\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["[]"]


def test_length_of_the_configuration_bounds_drafts() -> None:
    """Case L5."""
    drafter = build_drafter(parse_config({"method": "suffix", "num_speculative_tokens": 3}), CONTEXT)
    assert isinstance(drafter, SuffixDrafter)
    (chunk,) = drafter.draft([query([1, 2, 3, 4, 5] * 8, budget=64)])
    assert len(chunk.tokens) == 3


def test_a_foreign_configuration_is_refused() -> None:
    with pytest.raises(ValueError, match="no method has a configuration of type DrafterContext"):
        build_drafter(CONTEXT, CONTEXT)  # type: ignore[arg-type]
