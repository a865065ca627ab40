"""A configured drafter opens its draft files, finds what another engine added, and lets go of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.tiny import save_tiny
from drafters.cached_config import CachedConfig
from drafters.registry import parse_config
from paradraft import LLM, SamplingParams
from services.draft_files.configured import at_service, cached_part, configured_directory, configured_draft_files
from services.draft_files.opening import open_draft_files

SAMPLING = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
PROMPT = "a text that comes again"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("tiny")))


def answer(tiny: str, speculative_config: dict[str, Any] | None) -> tuple[tuple[int, ...], int]:
    """Its tokens, and how many of them were drafted."""
    with LLM(model=tiny, dtype="fp32", device="cpu", max_num_seqs=1, speculative_config=speculative_config) as llm:
        [output] = llm.generate([PROMPT], SAMPLING, use_tqdm=False)
        return tuple(output.outputs[0].token_ids), llm.stats().speculation.accepted


@pytest.mark.parametrize("mixed", [False, True])
def test_an_answer_is_found_by_the_next_engine(tiny: str, tmp_path: Path, mixed: bool) -> None:
    cached = {"method": "cached", "draft_files": str(tmp_path), "pooling": "none"}
    config = {"method": "mixed", "drafters": ["suffix", cached]} if mixed else cached
    plain, _ = answer(tiny, None)
    first, _ = answer(tiny, config)
    again, accepted = answer(tiny, config)
    assert first == again == plain
    assert accepted > 20
    open_draft_files(CachedConfig(draft_files=str(tmp_path))).close()  # nobody holds them any more


def test_a_drafter_that_cannot_be_built_lets_go_of_its_directory(tiny: str, tmp_path: Path) -> None:
    cached = {"method": "cached", "draft_files": str(tmp_path), "feature_layer": 99}
    with pytest.raises(ValueError, match="99"):
        answer(tiny, cached)
    open_draft_files(CachedConfig(draft_files=str(tmp_path))).close()


def test_what_a_configuration_names(tmp_path: Path) -> None:
    cached = {"method": "cached", "draft_files": str(tmp_path), "budget_bytes": 2**21}
    mixed = parse_config({"method": "mixed", "drafters": ["suffix", cached]})
    for config in (mixed, parse_config(cached)):
        options = configured_directory(config)
        assert options is not None
        assert (options.directory, options.budget_bytes) == (str(tmp_path), 2**21)
        elsewhere = at_service(config, "unix:/there")
        part = cached_part(elsewhere)
        assert part is not None
        assert (part.draft_files, part.address) == (None, "unix:/there")
        assert part.budget_bytes != 2**21  # the service has been told
        assert configured_directory(elsewhere) is None
    assert at_service(mixed, "unix:/there") != mixed
    suffix = parse_config({"method": "suffix"})
    assert cached_part(suffix) is configured_directory(suffix) is configured_draft_files(suffix) is None
    assert at_service(suffix, "unix:/there") == suffix
