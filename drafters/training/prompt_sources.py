"""Prompt sources: user turns that need no file: word problems from templates, and functions to be written in Python."""

from __future__ import annotations

import ast
import hashlib
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from drafters.training.extras import require

# Templates whose number leaves this remainder are for evaluation. Two instances of one template differ in names and
# numbers only, so templates are kept apart, not instances.
HELD_OUT_TEMPLATES, HELD_OUT_REMAINDER = 4, 3
TRIES = 20  # for each word problem that is wanted, until a template is taken to be exhausted

# Of the standard library: its tests, and programs whose functions nobody would ask for.
NOT_READ = frozenset({"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "__pycache__"})
SHORTEST, LONGEST = 15, 200  # characters of the sentence that says what a function does
PHRASINGS = (
    "Write a Python function `{name}({args})`. {sentence}",
    "Implement `{name}({args})` in Python and give a short example of its use. {sentence}",
    'Complete this Python function:\n\ndef {name}({args}):\n    """{sentence}"""\n',
    "Explain what this does, then write it in Python: {sentence}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """What a user says, and of which kind it is."""

    prompt: str
    domain: str


def maths_turns(count: int) -> list[UserTurn]:
    """`count` different word problems, from all templates of reasoning-gym's gsm_symbolic that may be trained on.

    The first of many are those of few. ValueError without the package, or where the templates hold no more.
    """
    require("reasoning_gym", "maths")
    from reasoning_gym.arithmetic.gsm_symbolic.gsm_symbolic import (
        GSMSymbolicDataset,
        GSMSymbolicDatasetConfig,
        tasks_ok,
    )

    generators = GSMSymbolicDataset(GSMSymbolicDatasetConfig(seed=0, size=1)).generators
    templates = trainable(tasks_ok)
    problems: dict[str, None] = {}
    for i in range(TRIES * count):
        if len(problems) == count:
            break
        problem = generators[templates[i % len(templates)]](Random(i), 1.0)  # noqa: S311  no secret
        problems[str(problem["question"])] = None
    turns = [UserTurn(prompt=problem, domain="math") for problem in problems]
    return _enough(turns, count, "reasoning-gym's templates")


def code_turns(count: int) -> list[UserTurn]:
    """`count` different functions of this Python's standard library, asked for in one phrasing, then in another.

    They come in an order that has nothing to do with their places; the first of many are those of few. ValueError
    where there are no more.
    """
    functions = _functions()
    prompts = dict.fromkeys(each.asked(turn) for turn in range(len(PHRASINGS)) for each in functions)
    return _enough([UserTurn(prompt=each, domain="code") for each in prompts], count, "the standard library")


def trainable(templates: list[int]) -> list[int]:
    """Those that are not kept for evaluation."""
    return [i for i in templates if i % HELD_OUT_TEMPLATES != HELD_OUT_REMAINDER]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """sentence: the first of its docstring."""

    name: str
    args: str
    sentence: str

    def rank(self) -> int:
        """A number that spreads functions evenly, the same in every run."""
        return int.from_bytes(hashlib.sha256(f"{self.name}({self.args}) {self.sentence}".encode()).digest()[:8], "big")

    def asked(self, turn: int) -> str:
        """Each turn in another phrasing, and different functions in different ones."""
        phrasing = PHRASINGS[(self.rank() + turn) % len(PHRASINGS)]
        return phrasing.format(name=self.name, args=self.args, sentence=self.sentence)


@cache
def _functions() -> tuple[_Function, ...]:
    """Of the standard library, by rank. Takes seconds, as all its files are parsed."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = (path for path in root.rglob("*.py") if not NOT_READ.intersection(path.relative_to(root).parts))
    return tuple(sorted({each for path in paths for each in _functions_in(path)}, key=_Function.rank))


def _functions_in(path: Path) -> Iterator[_Function]:
    """Public functions and methods with a docstring, read and not imported: some modules do things when imported."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            sentence = _first_sentence(ast.get_docstring(node) or "")
            if SHORTEST <= len(sentence) <= LONGEST:
                yield _Function(name=node.name, args=_arguments(node.args), sentence=sentence)


def _first_sentence(docstring: str) -> str:
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    head, stop, _ = paragraph.partition(". ")
    return head + stop.rstrip()


def _arguments(arguments: ast.arguments) -> str:
    """As written, without a method's own object."""
    for positional in (arguments.posonlyargs, arguments.args):
        if positional and positional[0].arg in {"self", "cls"}:
            del positional[0]
    return ast.unparse(arguments)


def _enough(turns: list[UserTurn], count: int, where: str) -> list[UserTurn]:
    if len(turns) < count:
        raise ValueError(f"{count} prompts of {where} are wanted, but there are only {len(turns)}; ask for no more")
    return turns[:count]
