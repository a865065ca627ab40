"""SuffixConfig: the keys of `speculative_config` for method suffix; the `suffix_decoding_` ones are vLLM's."""

from __future__ import annotations

from dataclasses import dataclass

from drafters.checks import check_number

DEPTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SuffixConfig:
    """num_speculative_tokens: longest draft (tree nodes count). suffix_decoding_max_tree_depth: longest match sought.

    suffix_decoding_max_spec_factor, suffix_decoding_max_spec_offset: a match of m tokens is followed for at most
    factor * m + offset tokens. suffix_decoding_min_token_prob: a token of lower survival is not proposed; at batch 1 it
    should stay above the cost of verifying one more token, in decode steps. num_branches: above 1, other continuations
    join as branches of a tree. suffix_cache_bytes: bound of the memory of past answers, 0 for none; a token of
    English takes about 600.
    """

    num_speculative_tokens: int = 16
    suffix_decoding_max_tree_depth: int = DEPTH
    suffix_decoding_max_spec_factor: float = 4.0
    suffix_decoding_max_spec_offset: float = 4.0
    suffix_decoding_min_token_prob: float = 0.1
    num_branches: int = 1
    suffix_cache_bytes: int = 256 * 2**20

    def __post_init__(self) -> None:
        for name, kind, low, high in _RANGES:
            check_number(name, getattr(self, name), kind, low, high)

    def reach(self, match_length: int) -> int:
        """Longest draft after a match of that length."""
        return int(self.suffix_decoding_max_spec_factor * match_length + self.suffix_decoding_max_spec_offset)


_RANGES: tuple[tuple[str, type[int] | type[float], float, float], ...] = (
    ("num_speculative_tokens", int, 1, 256),
    ("suffix_decoding_max_tree_depth", int, 1, DEPTH),
    ("suffix_decoding_max_spec_factor", float, 0, 1000),
    ("suffix_decoding_max_spec_offset", float, 0, 1000),
    ("suffix_decoding_min_token_prob", float, 0, 1),
    ("num_branches", int, 1, 8),
    ("suffix_cache_bytes", int, 0, 2**40),
)
