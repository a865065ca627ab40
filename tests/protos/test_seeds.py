"""expand: n answers, each with a seed of its own (cases S6, S8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.sampling_params import MAX_SEED, SamplingParams
from protos.seeds import expand

SEEDS = st.integers(0, MAX_SEED)


@given(seed=SEEDS, n=st.integers(1, 128))
def test_children_are_valid_distinct_and_repeatable(seed: int, n: int) -> None:
    children = expand(SamplingParams(seed=seed, n=n))
    assert len(children) == n
    assert all(child.n == 1 for child in children)
    assert len({child.seed for child in children}) == n
    assert children == expand(SamplingParams(seed=seed, n=n))


@given(seed=SEEDS, n=st.integers(1, 16))
def test_asking_for_more_changes_no_earlier_child(seed: int, n: int) -> None:
    few, many = expand(SamplingParams(seed=seed, n=n)), expand(SamplingParams(seed=seed, n=n + 1))
    assert few == many[:n]
    assert few[0].seed == seed


@given(seed=st.integers(0, 1000))
def test_neighbouring_seeds_share_no_child(seed: int) -> None:
    """Deriving child i as seed + i would give two neighbours nearly the same answers."""
    mine, next_one = (expand(SamplingParams(seed=s, n=16)) for s in (seed, seed + 1))
    assert not {c.seed for c in mine} & {c.seed for c in next_one}


def test_a_missing_seed_is_drawn_anew_each_time() -> None:
    first, second = expand(SamplingParams(n=2)), expand(SamplingParams(n=2))
    assert None not in {child.seed for child in first + second}
    assert len({child.seed for child in first + second}) == 4


def test_everything_else_is_kept() -> None:
    params = SamplingParams(n=3, seed=7, temperature=0.5, stop=["x"], logit_bias={5: -1.0}, max_tokens=9)
    for child in expand(params):
        assert (child.temperature, child.stop, child.logit_bias, child.max_tokens) == (0.5, ("x",), {5: -1.0}, 9)


@pytest.mark.parametrize(
    ("seed", "child", "derived"),
    [(0, 1, 9220497340248311756), (7, 1, 6064367806889537054), (MAX_SEED, 127, 5661339580487568056)],
)
def test_the_derivation_is_pinned(seed: int, child: int, derived: int) -> None:
    """A seed policy that users rely on must not move: the same request gives the same text after an upgrade."""
    assert expand(SamplingParams(seed=seed, n=child + 1))[child].seed == derived
