"""paradraft data: a model's answers to many prompts, for training its drafters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from services.cli.bars import LotBar
from services.cli.failures import one_line_errors
from services.cli.help_texts import ENGINE_HELP, SOURCE_HELP
from services.cli.options import Flag, ModelArgument, engine_flags, with_options
from services.cli.values import given, merged
from services.config import EngineArgs

if TYPE_CHECKING:
    from drafters.training.answers import Answer
    from drafters.training.prompt_sources import UserTurn
    from services.answering import Question
    from services.offline import LLM
    from services.prompt_supply import Sources

TEMPERATURES = [0.0, 0.8]


def source_flags() -> list[Flag]:
    """The fields of Sources."""
    return [
        Flag(name=name, kind=Path if name == "prompts" else int, help=text, panel="Prompts, at least one of these")
        for name, text in SOURCE_HELP.items()
    ]


@one_line_errors
@with_options([*source_flags(), *engine_flags()])
def data(
    *,
    model: ModelArgument = None,
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
    console, args = Console(stderr=True, highlight=False), _engine_args(model, options)
    from drafters.training.sole_writer import sole_writer
    from services.answering import Drawing, appendable, unanswered
    from services.magpie import OwnTurns
    from services.prompt_supply import Sources

    drawing = Drawing(temperatures=tuple(temperature), top_p=top_p, max_tokens=max_tokens)
    sources = Sources(**given(options, among=SOURCE_HELP))
    turns = _turns(console, sources)
    with sole_writer(appendable(out)):
        own = OwnTurns(out.with_suffix(".prompts.jsonl"), sources.magpie or 0)
        if not unanswered([*turns, *own.turns], drawing, out) and not own.missing:
            console.print(f"every prompt has its answers in {out}", soft_wrap=True)
            return
        from services.cli.loading import load
        from services.offline import LLM

        with console.status("loading the model") as status:
            target = load(args.target_spec(), status.update)
        with LLM.on(target, args) as llm:
            if own.missing:
                with LotBar(console, "prompts", own.missing) as bar:
                    own.write(llm, max_model_len=target.max_model_len, seen=lambda lot: bar.saw(len(lot)))
            _answer(console, llm, unanswered([*turns, *own.turns], drawing, out), out, target.max_model_len)


def _turns(console: Console, sources: Sources) -> list[UserTurn]:
    """Those that may be answered before the model writes its own."""
    with console.status("collecting prompts"):
        turns, left_out = sources.turns()
    if left_out:
        console.print(f"{left_out} left out: prompts that drafters are evaluated on")
    return turns


def _engine_args(model: str | None, options: Mapping[str, object]) -> EngineArgs:
    return EngineArgs.model_validate(merged(model, given(options, among=ENGINE_HELP)))


def _answer(console: Console, llm: LLM, questions: Sequence[Question], out: Path, max_model_len: int) -> None:
    from services.answering import answer

    with LotBar(console, "answers", len(questions)) as bar:

        def saw(answers: Sequence[Answer]) -> None:
            bar.saw(len(answers), sum(len(each.answer_ids) for each in answers))

        too_long = answer(questions, llm, out, max_model_len=max_model_len, seen=saw)
    if too_long:
        console.print(f"{too_long} left out: with an answer longer than the {max_model_len} tokens of a sequence")
