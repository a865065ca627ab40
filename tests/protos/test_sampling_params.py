"""SamplingParams: every bad value is refused by name; every good one is kept as given."""

import pickle
from typing import Any

import pytest

from protos.sampling_params import (
    MAX_LOGIT_BIAS,
    MAX_SEED,
    MAX_STOP_CHARS,
    MAX_STOP_IDS,
    MAX_STOPS,
    SamplingParams,
)

REFUSED: list[tuple[str, Any]] = [
    ("temperature", -0.1),
    ("temperature", float("nan")),
    ("temperature", float("inf")),
    ("temperature", "hot"),
    ("temperature", None),
    ("temperature", True),
    ("top_k", -2),
    ("top_k", 2.5),
    ("top_k", None),
    ("top_p", 0),
    ("top_p", 1.01),
    ("top_p", None),
    ("top_p", float("nan")),
    ("min_p", -0.01),
    ("min_p", 1.01),
    ("presence_penalty", 2.1),
    ("frequency_penalty", -2.1),
    ("repetition_penalty", 0),
    ("repetition_penalty", 11),
    ("repetition_penalty", 1e-320),
    ("temperature", 10**400),
    ("repetition_penalty", "1.0"),
    ("seed", -1),
    ("seed", MAX_SEED + 1),
    ("seed", 10**400),
    ("seed", 1.0),
    ("n", 0),
    ("n", 5_000_000),
    ("n", 2.0),
    ("n", None),
    ("max_tokens", 0),
    ("max_tokens", 10**12),
    ("max_tokens", 3.5),
    ("min_tokens", -1),
    ("min_tokens", None),
    ("logprobs", -1),
    ("logprobs", 10**9),
    ("logprobs", True),
    ("stop", ""),
    ("stop", ["a", ""]),
    ("stop", [1]),
    ("stop", 7),
    ("stop", ["x"] * (MAX_STOPS + 1)),
    ("stop", "x" * (MAX_STOP_CHARS + 1)),
    ("stop_token_ids", range(MAX_STOP_IDS + 1)),
    ("stop_token_ids", ["2"]),
    ("stop_token_ids", True),
    ("logit_bias", {1: 101}),
    ("logit_bias", {1: float("nan")}),
    ("logit_bias", {"1": 1.0}),
    ("logit_bias", {-1: 1.0}),
    ("logit_bias", dict.fromkeys(range(MAX_LOGIT_BIAS + 1), 1.0)),
]


@pytest.mark.parametrize(("name", "value"), REFUSED, ids=lambda v: str(v)[:20])
def test_a_bad_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        SamplingParams(**{name: value})


def test_min_tokens_above_max_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="min_tokens is 5, above max_tokens 4"):
        SamplingParams(min_tokens=5, max_tokens=4)
    assert SamplingParams(min_tokens=5, max_tokens=None).min_tokens == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stop": ["x"] * 17}, "stop has 17 entries; at most 16 are allowed"),
        ({"stop": ["", "x"]}, "stop has a string of 0 characters; each must have 1 to 1024"),
        ({"stop": "x" * 70_000}, "stop has a string of 70000 characters; each must have 1 to 1024"),
        ({"stop_token_ids": range(65)}, "stop_token_ids has 65 entries; at most 64 are allowed"),
    ],
)
def test_stops_are_bounded(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SamplingParams(**given)
    most = SamplingParams(stop=["é" * MAX_STOP_CHARS] * MAX_STOPS, stop_token_ids=range(MAX_STOP_IDS))  # type: ignore[arg-type]
    assert (len(most.stop), len(most.stop_token_ids)) == (MAX_STOPS, MAX_STOP_IDS)


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="temprature"):
        SamplingParams(temprature=1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "stored"), [("END", ("END",)), (["a", "b"], ("a", "b")), ((), ()), (None, ()), (iter(["x"]), ("x",))]
)
def test_stop_takes_one_or_many(given: Any, stored: tuple[str, ...]) -> None:
    assert SamplingParams(stop=given).stop == stored


@pytest.mark.parametrize(("given", "stored"), [(2, (2,)), ([2, 3], (2, 3)), (None, ())])
def test_stop_token_ids_take_one_or_many(given: Any, stored: tuple[int, ...]) -> None:
    assert SamplingParams(stop_token_ids=given).stop_token_ids == stored


def test_the_edges_of_each_range_are_allowed() -> None:
    low = SamplingParams(temperature=0, top_k=-1, top_p=1e-9, repetition_penalty=1e-3, seed=0, logprobs=0, min_p=0)
    high = SamplingParams(temperature=100, top_p=1, repetition_penalty=10, seed=MAX_SEED, n=128, logprobs=20, min_p=1)
    assert low.greedy
    assert not high.greedy


def test_it_is_a_value_of_its_own() -> None:
    """Later edits of the caller's mapping do not reach a running request; it crosses processes whole."""
    bias = {5: 1.0}
    params = SamplingParams(logit_bias=bias, stop="x")
    bias[5] = -100.0
    assert params.logit_bias == {5: 1.0}
    assert pickle.loads(pickle.dumps(params)) == params
    with pytest.raises(AttributeError):
        params.temperature = 0.0  # type: ignore[misc]
