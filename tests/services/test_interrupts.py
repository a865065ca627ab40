"""held_interrupts: Ctrl-C comes after the block, once, and not only into it."""

from __future__ import annotations

import signal
import threading

import pytest

from services.interrupts import held_interrupts


def test_the_block_is_finished_first() -> None:
    done = []

    def work() -> None:
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]


def test_a_second_one_does_not_wait() -> None:
    done = []

    def work() -> None:
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == []


def test_whoever_handled_it_before_does_so_again() -> None:
    seen: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
            assert seen == []
        assert seen == [signal.SIGINT]
        signal.raise_signal(signal.SIGINT)
        assert len(seen) == 2
    finally:
        signal.signal(signal.SIGINT, previous)


def test_it_does_nothing_outside_the_main_thread() -> None:
    before, inside = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with held_interrupts():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [before]
