"""paradraft data: a model's answers to a file of prompts, for training its drafters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from services.cli.failures import one_line_errors
from services.cli.options import ModelArgument, engine_flags, with_options
from services.cli.values import merged
from services.config import EngineArgs

if TYPE_CHECKING:
    from drafters.training.answers import Answer

TEMPERATURES = [0.0, 0.8]


@one_line_errors
@with_options(engine_flags())
def data(
    *,
    model: ModelArgument = None,
    prompts: Annotated[Path, typer.Option(help='Lines of JSON: {"prompt": "…"}, with a "domain" if you like.')],
    out: Annotated[Path, typer.Option(help="The .jsonl file that answers are appended to; those there are kept.")],
    temperature: Annotated[
        list[float], typer.Option(help="Each prompt is answered at each of them; may be given several times.")
    ] = TEMPERATURES,
    top_p: Annotated[float, typer.Option(help="Above temperature 0, draw from tokens that hold this much.")] = 0.95,
    max_tokens: Annotated[int, typer.Option(help="Longest answer.")] = 256,
    **options: Any,
) -> None:
    """Answer many prompts, as material to train drafters on.

    A second call goes on where the first one stopped.
    """
    args = EngineArgs.model_validate(merged(model, options))
    console = Console(stderr=True, highlight=False)
    from services.answering import Drawing, answer, read_questions, unanswered

    drawing = Drawing(temperatures=tuple(temperature), top_p=top_p, max_tokens=max_tokens)
    questions = unanswered(read_questions(prompts, drawing), out)
    if not questions:
        console.print(f"every prompt has its answers in {out}", soft_wrap=True)
        return
    from services.cli.loading import load
    from services.offline import LLM

    with console.status("loading the model") as status:
        target = load(args.target_spec(), status.update)
    with LLM.on(target, args) as llm, AnswerBar(console, len(questions)) as bar:
        too_long = answer(questions, llm, out, max_model_len=target.max_model_len, seen=bar.saw)
    if too_long:
        console.print(
            f"{too_long} left out: with an answer longer than the {target.max_model_len} tokens of a sequence"
        )


class AnswerBar(Progress):
    """Counts answers and tokens; without a terminal it prints a line for each lot."""

    def __init__(self, console: Console, total: int) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        speed = TextColumn("{task.fields[speed]}")
        super().__init__("answering", *columns, speed, console=console, disable=not console.is_terminal)
        self._answering = self.add_task("", total=total, speed="")
        self._began = time.monotonic()
        self._tokens = 0

    def saw(self, answers: Sequence[Answer]) -> None:
        """Advances by one lot."""
        self._tokens += sum(len(each.answer_ids) for each in answers)
        rate = self._tokens / max(time.monotonic() - self._began, 1e-9)
        speed = f"{self._tokens:,} tokens, {rate:.0f} tok/s"
        self.update(self._answering, advance=len(answers), speed=speed)
        if self.disable:
            self.console.print(f"{self.tasks[0].completed:.0f} of {self.tasks[0].total:.0f} answers, {speed}")
