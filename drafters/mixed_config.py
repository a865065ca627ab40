"""MixedConfig: the keys of `speculative_config` for method mixed, and how errors in its parts read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from drafters.cached_config import CachedConfig
from drafters.checks import check_number
from drafters.model_config import ModelConfig
from drafters.suffix_config import SuffixConfig

Part = SuffixConfig | CachedConfig | ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedConfig:
    """drafters: the configurations of those that compete, each of another method. num_speculative_tokens: longest
    draft; left out of a `speculative_config` it is that of the drafter with the longest."""

    drafters: tuple[Part, ...]
    num_speculative_tokens: int

    def __post_init__(self) -> None:
        check_number("num_speculative_tokens", self.num_speculative_tokens, int, 1, 256)
        threads = {each.draft_threads for each in self.drafters if isinstance(each, ModelConfig)} - {None}
        if len(threads) > 1:
            given = " and ".join(str(each) for each in sorted(filter(None, threads)))
            raise ValueError(
                f"speculative_config: draft_threads of the drafters are {given}, but they share a process and its "
                "threads; give one number"
            )


@contextmanager
def named(place: int) -> Iterator[None]:
    """Errors say which entry of `drafters` they are about."""
    try:
        yield
    except ValueError as error:
        reason = str(error).removeprefix("speculative_config: ")
        raise ValueError(f"speculative_config: drafters[{place}]: {reason}") from error
