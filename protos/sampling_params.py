"""SamplingParams: how one request draws its tokens. Field names and meanings are vLLM's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from protos.field_error import FieldError

MAX_LOGPROBS = 20
MAX_LOGIT_BIAS = 1024
MAX_STOPS = 16
MAX_STOP_CHARS = 1024
MAX_STOP_IDS = 64
MAX_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Immutable and validated; a bad value raises FieldError that names the field, the value and the remedy.

    temperature 0 is greedy (lowest id wins a tie). top_k 0 or -1 and top_p 1 are off. `logprobs` is the number of
    alternatives reported beside each emitted token (None: no logprobs at all). `seed` None draws one at admission.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    n: int = 1
    max_tokens: int | None = 16
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    logprobs: int | None = None

    def __post_init__(self) -> None:
        _one_or_many(self, "stop", str)
        _one_or_many(self, "stop_token_ids", int)
        object.__setattr__(self, "logit_bias", dict(self.logit_bias or {}))
        for name, low, high in _REAL:
            _check(name, getattr(self, name), low, high)
        for name, low, high in _WHOLE:
            _check_whole(name, getattr(self, name), low, high)
        if _check("top_p", self.top_p, 0, 1) == 0:
            raise FieldError("top_p", f"top_p is {self.top_p}; it must be above 0 and at most 1")
        _check_stops(self)
        _check_logit_bias(self.logit_bias)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise FieldError(
                "min_tokens", f"min_tokens is {self.min_tokens}, above max_tokens {self.max_tokens}; lower it"
            )

    @property
    def greedy(self) -> bool:
        """True where the highest logit is taken and no noise is drawn."""
        return self.temperature == 0


_REAL: tuple[tuple[str, float, float], ...] = (
    ("temperature", 0, 100),
    ("min_p", 0, 1),
    ("presence_penalty", -2, 2),
    ("frequency_penalty", -2, 2),
    ("repetition_penalty", 0.001, 10),  # one that is 0 in float32 would make a score infinite
)
_WHOLE: tuple[tuple[str, int, int], ...] = (
    ("top_k", -1, 2**31 - 1),
    ("seed", 0, MAX_SEED),
    ("n", 1, 128),
    ("max_tokens", 1, 2**31 - 1),
    ("min_tokens", 0, 2**31 - 1),
    ("logprobs", 0, MAX_LOGPROBS),
)
_MAY_BE_NONE = frozenset({"seed", "max_tokens", "logprobs"})


def _check(name: str, value: object, low: float, high: float, *, what: str = "") -> float:
    """`what` says which part of the field the value is, where it is not the whole."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(name, f"{what or name} is {value!r}; it must be a number")
    if not low <= value <= high:  # nor is NaN
        shown = value if isinstance(value, float) or abs(value) < 10**40 else "a number of over 40 digits"
        raise FieldError(name, f"{what or name} is {shown}; it must be between {low} and {high}")
    return value


def _check_whole(name: str, value: object, low: int, high: int, *, what: str = "") -> None:
    if value is None and name in _MAY_BE_NONE:
        return
    if not isinstance(value, int):
        raise FieldError(name, f"{what or name} is {value!r}; it must be a whole number")
    _check(name, value, low, high, what=what)


def _check_logit_bias(biases: Mapping[int, float]) -> None:
    name = "logit_bias"
    if len(biases) > MAX_LOGIT_BIAS:
        raise FieldError(name, f"logit_bias has {len(biases)} entries; at most {MAX_LOGIT_BIAS} are allowed")
    for token, bias in biases.items():
        _check_whole(name, token, 0, 2**31 - 1, what="a token id of logit_bias")
        _check(name, bias, -100, 100, what=f"logit_bias[{token}]")


def _check_stops(params: SamplingParams) -> None:
    for name, most in (("stop", MAX_STOPS), ("stop_token_ids", MAX_STOP_IDS)):
        count = len(getattr(params, name))
        if count > most:
            raise FieldError(name, f"{name} has {count} entries; at most {most} are allowed")
    for text in params.stop:
        if not 1 <= len(text) <= MAX_STOP_CHARS:
            raise FieldError(
                "stop", f"stop has a string of {len(text)} characters; each must have 1 to {MAX_STOP_CHARS}"
            )


def _one_or_many(params: SamplingParams, name: str, kind: type) -> None:
    """Accepts one value or any iterable of them, as vLLM does, and stores a tuple."""
    value: object = getattr(params, name)
    values = (value,) if isinstance(value, kind) else value
    if values is None:
        values = ()
    if not isinstance(values, Iterable):
        raise FieldError(name, f"{name} is {value!r}; it must be one {kind.__name__} or a list of them")
    values = tuple(values)
    for item in values:
        if isinstance(item, bool) or not isinstance(item, kind):
            raise FieldError(name, f"{name} holds {item!r}; each entry must be {kind.__name__}")
    object.__setattr__(params, name, values)
