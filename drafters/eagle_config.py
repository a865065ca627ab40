"""Eagle3Config, PEagleConfig: the keys of `speculative_config` for the methods over an EAGLE net."""

from __future__ import annotations

from dataclasses import dataclass

from drafters.checks import check_number
from drafters.model_config import ModelConfig

DEEPEST = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class EagleConfig(ModelConfig):
    """model: an EAGLE net trained for the target."""

    num_speculative_tokens: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Eagle3Config(EagleConfig):
    """model: a net that drafts token by token.

    topk: above 1, drafts are trees: of each depth that many nodes are followed, to as many tokens each (EAGLE-2, arXiv
    2406.16858). depth: levels of such a tree, of which the best num_speculative_tokens nodes are proposed; None: as
    many as there may be nodes, but at most DEEPEST.
    """

    topk: int = 1
    depth: int | None = None

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is another class than the one that a bare super() means.
        EagleConfig.__post_init__(self)
        check_number("topk", self.topk, int, 1, 32)
        if self.depth is None:
            return
        check_number("depth", self.depth, int, 1, self.num_speculative_tokens)
        if self.topk == 1:
            raise ValueError(
                f"speculative_config: depth is {self.depth}, but topk 1 makes no trees; ask for a topk above 1, "
                "or set the length of drafts by num_speculative_tokens"
            )

    @property
    def levels(self) -> int:
        """Steps of a draft."""
        if self.topk == 1:
            return self.num_speculative_tokens
        return self.depth or min(self.num_speculative_tokens, DEEPEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class PEagleConfig(EagleConfig):
    """model: a net with slots. num_speculative_tokens: at most what one forward of it drafts."""
