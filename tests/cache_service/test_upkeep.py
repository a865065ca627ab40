"""Upkeep: its thread ends when it is told to, whenever that is."""

from __future__ import annotations

import pytest

from cache_service.storage.upkeep import Upkeep


def test_a_stop_at_the_end_of_a_pause_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    upkeep = Upkeep(lambda: False)

    def told_as_it_ends(_: float) -> bool:
        upkeep._stopping.set()
        upkeep._woken.set()
        return False

    monkeypatch.setattr(upkeep._stopping, "wait", told_as_it_ends)
    upkeep.start()
    upkeep.wake()
    upkeep._thread.join(30)
    assert not upkeep._thread.is_alive()


def test_a_stop_in_a_pause_does_nothing_more() -> None:
    steps: list[int] = []

    def step() -> bool:
        steps.append(1)
        return False

    upkeep = Upkeep(step)
    upkeep.start()
    upkeep.wake()
    upkeep.stop()
    upkeep.stop()
    assert steps == []


def test_a_stop_in_its_own_thread_does_not_wait_for_itself() -> None:
    """A collector of garbage closes a store in whatever thread it comes to run."""
    upkeep: Upkeep
    upkeep = Upkeep(lambda: upkeep.stop() is not None)
    upkeep.start()
    upkeep.wake()
    upkeep._thread.join(30)
    assert not upkeep._thread.is_alive()
