"""Learned drafters for the suite's target: random nets of its width, whose vocabulary is what its answers use most."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from modeling.block_checkpoint import BLOCK_NETS
from modeling.eagle_checkpoint import EAGLE_NETS
from tests.exactness.rig import Reference
from tests.fakes import block_nets, eagle_nets

DRAFT = 3
WORDS = 8
TAPS = (3, 15, 27)

Make = Callable[..., str]


def block(folder: Path, **changes: Any) -> None:
    BLOCK_NETS.save(block_nets.random_net(**changes), folder)


def eagle(folder: Path, **changes: Any) -> None:
    EAGLE_NETS.save(eagle_nets.random_net(**changes), folder)


LEARNED: dict[str, Callable[[Make], dict[str, Any]]] = {
    "dflash": lambda make: {"method": "dflash", "model": make(block)},
    "dspark": lambda make: {"method": "dspark", "model": make(block, **block_nets.DSPARK)},
    "eagle3-chain": lambda make: {"method": "eagle3", "model": make(eagle)},
    "eagle3-tree": lambda make: {"method": "eagle3", "topk": 2, "model": make(eagle)},
    "p_eagle-fused": lambda make: {"method": "p_eagle", "model": make(eagle, slots="fused", num_slots=DRAFT)},
    "p_eagle-mask": lambda make: {"method": "p_eagle", "model": make(eagle, slots="mask", num_slots=DRAFT)},
    "mixed": lambda make: {
        "method": "mixed",
        "drafters": [
            {"method": "suffix"},
            {"method": "dflash", "model": make(block), "num_speculative_tokens": DRAFT},
            {"method": "eagle3", "model": make(eagle), "num_speculative_tokens": DRAFT},
        ],
    },
}


def speculative_config(name: str, reference: Reference, folder: Path) -> dict[str, Any]:
    """That of a drafter of LEARNED, its nets saved below the folder.

    Of few and frequent words, a guess at random is right now and then: drafts are refused, accepted and half accepted.
    """
    target, _, outcomes = reference
    used = Counter(token for outcome in outcomes.values() for token in outcome.tokens)
    common = {
        "hidden_size": target.config.hidden_size,
        "vocab_size": target.vocab_size,
        "feature_layers": TAPS,
        "draft_vocab": tuple(sorted(token for token, _ in used.most_common(WORDS))),
    }
    numbers = itertools.count()

    def make(kind: Callable[..., None], **changes: Any) -> str:
        place = folder / str(next(numbers))
        kind(place, **common, **changes)
        return str(place)

    return LEARNED[name](make) | {"num_speculative_tokens": DRAFT}
