"""The store of past answers: bounded in what it really holds, oldest first out, tenants apart."""

from __future__ import annotations

import random
import tracemalloc
from array import array

import pytest

from drafters.past_answers import ANSWER_BYTES, PastAnswers
from drafters.suffix_index import EMPTY_BYTES, MOST_BYTES_PER_TOKEN

SIZE = 9
NEEDED = EMPTY_BYTES + (SIZE + 1) * MOST_BYTES_PER_TOKEN + ANSWER_BYTES


def answer(seed: int, size: int = SIZE) -> array[int]:
    return array("i", range(seed * 100, seed * 100 + size))


def finds(store: PastAnswers, tenant: str, text: array[int]) -> bool:
    index = store.of(tenant)
    match = index.match(text[:4]) if index is not None else None
    return match is not None and match.length == 4


def test_ten_times_the_capacity_stays_within_it() -> None:
    """Case R4: the oldest answer of all tenants goes first."""
    capacity = 10 * NEEDED
    store = PastAnswers(capacity)
    for seed in range(200):
        store.add(f"tenant{seed % 3}", answer(seed))
        assert store.num_bytes <= capacity
    kept = [seed for seed in range(200) if finds(store, f"tenant{seed % 3}", answer(seed))]
    assert kept == list(range(200 - len(kept), 200))
    assert 10 <= len(kept) <= 20


@pytest.mark.parametrize("vocabulary", [50_000, 3])
@pytest.mark.parametrize("tenants", [1, 40])
def test_memory_really_held_stays_within_the_bound(vocabulary: int, tenants: int) -> None:
    """Case R4, by Python's own account: text that never repeats costs the most, and tables grow in leaps."""
    capacity, rng = 2**20, random.Random(vocabulary)
    answers = [array("i", rng.choices(range(vocabulary), k=rng.randrange(1, 200))) for _ in range(300)]
    tracemalloc.start()
    try:
        store = PastAnswers(capacity)
        fullest = 0
        for i, text in enumerate(answers):
            store.add(f"tenant{i % tenants}", text)
            held, _ = tracemalloc.get_traced_memory()
            assert held <= store.num_bytes <= capacity
            fullest = max(fullest, held)
    finally:
        tracemalloc.stop()
    assert fullest > capacity / 3


def test_an_evicted_tenant_leaves_nothing() -> None:
    store = PastAnswers(2 * NEEDED)
    store.add("a", answer(1))
    for seed in range(2, 9):
        store.add("b", answer(seed))
    assert store.of("a") is None
    store.add("a", answer(1))
    assert finds(store, "a", answer(1))
    store = PastAnswers(NEEDED)
    for seed in range(9):
        store.add(str(seed), answer(seed))
        assert finds(store, str(seed), answer(seed))
        assert store.of(str(seed - 1)) is None


def test_same_text_is_stored_once() -> None:
    store = PastAnswers(100 * NEEDED)
    store.add("a", answer(1))
    once = store.num_bytes
    for _ in range(5):
        store.add("a", answer(1))
    assert store.num_bytes == once
    store.add("b", answer(1))
    assert store.num_bytes == 2 * once


def test_text_longer_than_the_store_is_left_out() -> None:
    store = PastAnswers(3 * NEEDED)
    store.add("a", answer(1))
    store.add("a", answer(2, size=100))
    assert finds(store, "a", answer(1))
    assert not finds(store, "a", answer(2))


def test_no_store() -> None:
    store = PastAnswers(0)
    store.add("a", answer(1))
    assert store.of("a") is None
