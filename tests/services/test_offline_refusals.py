"""LLM: what it cannot be made with is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from paradraft import LLM


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_num_seq": 4}, "max_num_seqs"),
        ({"dtype": "fp7"}, "fp7"),
        ({"device": "tpu"}, "tpu"),
        ({"speculative_config": {"method": "sufix"}}, "sufix"),
        ({"speculative_config": {"method": "suffix", "num_speculative_token": 3}}, "num_speculative_tokens"),
        ({"speculative_config": {"model": "/nowhere"}}, "/nowhere"),
        ({"speculative_config": {"method": "suffix", "transport": "grpc"}}, "transport grpc"),
        ({"speculative_config": {"method": "suffix", "socket": "tcp"}}, "leave transport and socket out"),
        ({"speculative_config": {"model": "m", "draft_threads": 2}}, "draft_threads is 2, but in one process"),
    ],
    ids=str,
)
def test_a_bad_option_is_refused_by_name(model: str, options: dict[str, object], named: str) -> None:
    """Case M4: a drafter that cannot be is no reason to go on without."""
    with pytest.raises(ValueError, match=named):
        LLM(model, threads=1, **options)  # type: ignore[arg-type]


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no config\.json"):
        LLM(str(tmp_path))
