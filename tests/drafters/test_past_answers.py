"""The store of past answers: bounded, oldest first out, tenants apart."""

from __future__ import annotations

from array import array

from drafters.past_answers import PastAnswers
from drafters.suffix_index import BYTES_PER_TOKEN


def answer(seed: int, size: int = 9) -> array[int]:
    return array("i", range(seed * 100, seed * 100 + size))


def finds(store: PastAnswers, tenant: str, text: array[int]) -> bool:
    index = store.of(tenant)
    match = index.match(text[:4]) if index is not None else None
    return match is not None and match.length == 4


def test_ten_times_the_capacity_stays_within_it() -> None:
    store = PastAnswers(100 * BYTES_PER_TOKEN)
    for seed in range(100):
        store.add(f"tenant{seed % 3}", answer(seed))
        assert store.num_bytes <= 100 * BYTES_PER_TOKEN
    kept = [seed for seed in range(100) if finds(store, f"tenant{seed % 3}", answer(seed))]
    assert kept == list(range(90, 100))


def test_an_evicted_tenant_leaves_nothing() -> None:
    store = PastAnswers(20 * BYTES_PER_TOKEN)
    store.add("a", answer(1))
    store.add("b", answer(2))
    store.add("b", answer(3))
    assert store.of("a") is None
    store.add("a", answer(1))
    assert finds(store, "a", answer(1))


def test_same_text_is_stored_once() -> None:
    store = PastAnswers(100 * BYTES_PER_TOKEN)
    for _ in range(5):
        store.add("a", answer(1))
    assert store.num_bytes == 10 * BYTES_PER_TOKEN
    store.add("b", answer(1))
    assert store.num_bytes == 20 * BYTES_PER_TOKEN


def test_text_longer_than_the_store_is_left_out() -> None:
    store = PastAnswers(100 * BYTES_PER_TOKEN)
    store.add("a", answer(1))
    store.add("a", answer(2, size=100))
    assert finds(store, "a", answer(1))
    assert not finds(store, "a", answer(2))


def test_no_store() -> None:
    store = PastAnswers(0)
    store.add("a", answer(1))
    assert store.of("a") is None
