"""start_ray: a node that did not come up is given a second chance, and anything else is told as it is."""

from __future__ import annotations

import os
from typing import Any

import pytest
import ray

from services.local_ray import NICENESS_VARIABLE, start_ray

NOT_UP = Exception("The current node timed out during startup.")


class Starts:
    """Each start fails as it is told to, the others do not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failures: Exception) -> None:
        self.options: list[dict[str, Any]] = []
        self._failures = list(failures)
        monkeypatch.setattr(ray, "init", self)
        monkeypatch.setenv(NICENESS_VARIABLE, "")  # before it is deleted, so that it is restored at the end
        monkeypatch.delenv(NICENESS_VARIABLE)

    def __call__(self, **options: Any) -> None:
        self.options.append(options)
        if self._failures:
            raise self._failures.pop(0)


def test_a_node_that_does_not_come_up_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    starts = Starts(monkeypatch, NOT_UP)
    start_ray(num_cpus=1)
    assert starts.options == [{"num_cpus": 1}] * 2
    assert "it is tried once more: The current node timed out" in caplog.text
    assert os.environ[NICENESS_VARIABLE] == "0"


def test_one_that_never_does_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = Starts(monkeypatch, NOT_UP, NOT_UP)
    with pytest.raises(RuntimeError, match=r"Ray did not start: The current node timed out during startup\. A busy"):
        start_ray()
    assert len(starts.options) == 2


def test_another_failure_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = Starts(monkeypatch, ConnectionError("no such address"))
    with pytest.raises(ConnectionError, match="no such address"):
        start_ray()
    assert len(starts.options) == 1


def test_niceness_that_was_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    Starts(monkeypatch)
    monkeypatch.setenv(NICENESS_VARIABLE, "5")
    start_ray()
    assert os.environ[NICENESS_VARIABLE] == "5"
