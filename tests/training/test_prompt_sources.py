"""Prompt sources: different prompts, the same in every run, none of a template that is kept for evaluation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from reasoning_gym.arithmetic.gsm_symbolic import gsm_symbolic

from benchmarks.harness.prompts import held_out_mathematics
from drafters.training.prompt_sources import _functions_in, code_turns, maths_turns, trainable

CODE = "from drafters.training.prompt_sources import maths_turns as m; print([t.prompt for t in m(70)])"


def test_no_problem_is_of_a_held_out_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every template says its number instead of a problem."""

    class Numbered(gsm_symbolic.GSMSymbolicDataset):
        @property
        def generators(self) -> dict[int, object]:
            return {i: lambda rng, _, i=i: {"question": f"{i} {rng.random()}"} for i in range(100)}

    monkeypatch.setattr(gsm_symbolic, "GSMSymbolicDataset", Numbered)
    used = {int(turn.prompt.split()[0]) for turn in maths_turns(300)}
    assert used == {i for i in gsm_symbolic.tasks_ok if i % 4 != 3}
    evaluated = {int(prompt.id.removeprefix("gsm-")) for prompt in held_out_mathematics(99)}
    assert len(evaluated) > 10
    assert used.isdisjoint(evaluated)
    assert trainable([0, 3, 4, 7, 11, 12]) == [0, 4, 12]


def test_problems_are_different_and_the_first_of_many_are_those_of_few() -> None:
    turns = maths_turns(150)
    assert len({turn.prompt for turn in turns}) == 150
    assert {turn.domain for turn in turns} == {"math"}
    assert maths_turns(70) == turns[:70]


def test_another_process_gives_the_same_problems() -> None:
    command = [sys.executable, "-c", CODE]
    other = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "5"}, cwd=_root()
    )
    assert other.stdout.strip() == str([turn.prompt for turn in maths_turns(70)])


def test_functions_are_asked_for_once_in_each_phrasing() -> None:
    turns = code_turns(6000)
    prompts = [turn.prompt for turn in turns]
    assert len(set(prompts)) == 6000
    assert {turn.domain for turn in turns} == {"code"}
    assert code_turns(50) == turns[:50]
    beginnings = {prompt.split(" ", 1)[0] for prompt in prompts[:50]}
    assert beginnings == {"Write", "Implement", "Complete", "Explain"}
    with pytest.raises(ValueError, match="of the standard library are wanted, but there are only"):
        code_turns(10**6)


def test_what_is_asked_of_a_function(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "class A:\n"
        "    def far(self, x, *, y=1):\n"
        '        """Say how far it is.  In metres,\n        mostly.\n\n        More."""\n'
        "    def near(self, /):\n"
        '        """Short."""\n'
        "def _own(x):\n"
        '    """Nobody should ask for this."""\n'
        "async def wait(seconds: float = 2) -> None:\n"
        '    """Wait for a while, then return"""\n'
    )
    found = {(each.name, each.args, each.sentence) for each in _functions_in(path)}
    assert found == {
        ("far", "x, *, y=1", "Say how far it is."),
        ("wait", "seconds: float=2", "Wait for a while, then return"),
    }


def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ValueError, match=r"maths needs the package reasoning-gym; .*pip install -e '\.\[train\]'"):
        maths_turns(1)


def _root() -> Path:
    return Path(__file__).resolve().parents[2]
