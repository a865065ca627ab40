"""Plots: every figure of every look is drawn, also after a stop, and nothing is begun without matplotlib."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from drafters.training.held_out import Figures
from drafters.training.plots import FILE, Plots, draw
from drafters.training.run import Look
from tests.training.runs import Seen


def look(step: int) -> Look:
    figures = Figures(
        loss=3.0 - step,
        accepted_length=1.0 + step,
        expected_length=1.25 + step,
        by_position=(0.5 + step / 8, 0.25 + step / 8),
        by_domain={"chat": 2.0 + step, "math": 3.0 + step},
    )
    return Look(step=step, loss=4.0 - step, tokens=step, held_out=figures)


LOOKS = [look(step) for step in (1, 2, 3)]


def test_lines_are_the_looks() -> None:
    loss, length, positions = (
        {line.get_label(): line.get_ydata().tolist() for line in axes.get_lines()} for axes in draw(LOOKS).axes
    )
    assert loss == {"training": [3, 2, 1], "held out": [2, 1, 0]}
    assert length == {
        "likeliest drafts": [2, 3, 4],
        "drawn at temperature 1": [2.25, 3.25, 4.25],
        "chat": [3, 4, 5],
        "math": [4, 5, 6],
    }
    assert positions == {"1": [0.625, 0.75, 0.875], "2": [0.375, 0.5, 0.625]}
    assert all(line.get_xdata().tolist() == [1, 2, 3] for axes in draw(LOOKS).axes for line in axes.get_lines())


def test_the_file_is_drawn_anew_at_each_look_and_all_is_passed_on(tmp_path: Path) -> None:
    seen = Seen()
    plots = Plots(tmp_path, seen)
    plots.began(0, 9)
    plots.looked(LOOKS[:1])
    first = (tmp_path / FILE).read_bytes()
    plots.looked(LOOKS[:2])
    second = (tmp_path / FILE).read_bytes()
    assert first[:8] == second[:8] == b"\x89PNG\r\n\x1a\n"
    assert first != second
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert (seen.begins, seen.ends, seen.all_looks) == (0, 9, [1, 2])


def test_without_matplotlib_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"a plot needs the package matplotlib; install it .*pip install -e"):
        Plots(tmp_path, Seen())
