"""Recipe: everything that decides what weights come out of a training run, besides the target and the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

Method = Literal["dflash", "dspark", "eagle3", "p_eagle", "draft_model"]
Markov = Literal["none", "vanilla", "gated", "rnn"]
Slots = Literal["fused", "mask"]
Precision = Literal["bf16", "fp32"]
HEAD_DIM = 32  # of a draft model
EAGLE_DECAY = 4.48  # exp(-1 / 4.48) = 0.8, by which a step of EAGLE-3's training-time test counts less than the last
METHODS: tuple[str, ...] = get_args(Method)
BLOCK_METHODS = ("dflash", "dspark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Defaults for two CPU cores and about a million answer tokens.

    The net: `layers` decoder layers of the target's own width, a block of `block_size` slots that gives as many
    drafts, features from `taps` target layers, a draft vocabulary of the `draft_vocab` tokens most frequent in answers
    (0: the target's whole one), a Markov head of rank `markov_rank`. eagle3 takes `block_size` steps one by one;
    p_eagle has as many slots, fed as `slots` says (see EagleNetConfig). A draft model has layers of `width` and reads
    no features; its `block_size` is only how many drafts in a row are looked at.
    The schedule: `batch` answers a step, `anchors` blocks an answer, `epochs` times through the answers; AdamW with a
    linear warm-up over the share `warmup` of the steps, then a cosine to zero; gradients clipped to norm `clip`.
    The loss: the k-th prediction of a block weighs exp(-(k-1) / `decay`); the target's law is represented by its
    `law_size` likeliest tokens, and the rest as one outcome.
    The data: answers cut to `max_length` tokens with their prompt; a share `held_out` of the prompts is never trained
    on, and looked at every `evaluate_every` steps.
    """

    method: Method
    layers: int = 2
    width: int = 192
    block_size: int = 8
    taps: int = 3
    draft_vocab: int = 8192
    markov: Markov = "vanilla"
    markov_rank: int = 128
    slots: Slots = "fused"
    batch: int = 8
    anchors: int = 32
    epochs: float = 6.0
    learning_rate: float = 1e-3
    warmup: float = 0.04
    clip: float = 1.0
    weight_decay: float = 0.0
    decay: float = 4.0
    law_size: int = 64
    max_length: int = 512
    held_out: float = 0.02
    evaluate_every: int = 100
    precision: Precision = "bf16"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, kind in (("method", Method), ("markov", Markov), ("slots", Slots), ("precision", Precision)):
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(get_args(kind))}")
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}; it must be from {low:g} to {high:g}")
        for contradiction, there in self._contradictions().items():
            if there:
                raise ValueError(contradiction)

    def _contradictions(self) -> dict[str, bool]:
        method = self.method
        return {
            f"width is {self.width}; a draft model's must be a multiple of {HEAD_DIM}": (
                method == "draft_model" and self.width % HEAD_DIM != 0
            ),
            f"taps is 0, but {method} reads the target's layers; give 1 to 16": (
                self.taps == 0 and method != "draft_model"
            ),
            f"block_size is 1, but a block of {method} begins with the anchor; give 2 to 64": (
                self.block_size == 1 and method in BLOCK_METHODS
            ),
            f"markov is {self.markov!r}, but {method} has no Markov head; train dspark, or leave it out": (
                self.markov != "none" and method != "dspark"
            ),
        }

    def differences(self, other: Recipe) -> dict[str, tuple[Any, Any]]:
        """Name to (own, other's) value of every field that differs."""
        pairs = {each.name: (getattr(self, each.name), getattr(other, each.name)) for each in fields(self)}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def make_recipe(method: str, given: Mapping[str, Any]) -> Recipe:
    """The method's defaults with the `given` fields in their place; ValueError names the value and its range."""
    if method not in METHODS:
        raise ValueError(f"method {method!r} cannot be trained; there are: {', '.join(METHODS)}")
    for name in given:
        if name in _FOREIGN.get(method, ()):
            raise ValueError(f"{name} means nothing to {method}; leave it out")
    return replace(_DEFAULTS[method], **given)


_FOREIGN: dict[str, tuple[str, ...]] = {
    "dflash": ("width", "markov_rank", "slots"),
    "dspark": ("width", "slots"),
    "eagle3": ("width", "markov", "markov_rank", "slots"),
    "p_eagle": ("width", "markov", "markov_rank"),
    "draft_model": ("draft_vocab", "markov", "markov_rank", "slots"),
}

_RANGES: dict[str, tuple[float, float]] = {
    "layers": (1, 64),
    "width": (32, 8192),
    "block_size": (1, 64),
    "taps": (0, 16),
    "draft_vocab": (0, 2**31),
    "markov_rank": (1, 4096),
    "batch": (1, 4096),
    "anchors": (1, 4096),
    "epochs": (1e-6, 10_000),
    "learning_rate": (1e-8, 1),
    "warmup": (0, 1),
    "clip": (1e-6, 1e6),
    "weight_decay": (0, 1),
    "decay": (0.1, 1e6),
    "law_size": (1, 4096),
    "max_length": (4, 2**20),
    "held_out": (0.001, 0.5),
    "evaluate_every": (1, 10**9),
    "seed": (0, 2**63 - 1),
}

_DEFAULTS: dict[str, Recipe] = {
    "dflash": Recipe(method="dflash", markov="none"),
    "dspark": Recipe(method="dspark"),
    "eagle3": Recipe(method="eagle3", layers=1, markov="none", decay=EAGLE_DECAY),
    "p_eagle": Recipe(method="p_eagle", markov="none", decay=EAGLE_DECAY),
    "draft_model": Recipe(method="draft_model", layers=4, taps=0, draft_vocab=0, markov="none", anchors=64),
}
