"""paradraft doctor: checks a model, a drafter and this machine, then measures acceptance and names the likely cause."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from services.cli.failures import FAILED, one_line_errors
from services.cli.options import ModelArgument, engine_flags, with_options
from services.cli.values import merged
from services.config import EngineArgs

if TYPE_CHECKING:
    from modeling.target import Target
    from services.cli.diagnosis import Evidence

MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "bold red")}


@one_line_errors
@with_options(engine_flags())
def doctor(
    *,
    model: ModelArgument = None,
    temperature: Annotated[float, typer.Option(help="For the trial prompts.")] = 0.0,
    raw: Annotated[bool, typer.Option("--raw", help="Trial prompts without the chat template.")] = False,
    **options: Any,
) -> None:
    """Find out why a model or a drafter is slow or wrong.

    Checks both, then tries them on a few prompts; exit code 1 if a check fails.
    """
    args = EngineArgs.model_validate(merged(model, options))
    console = Console(highlight=False)
    with console.status("loading") as status:
        target = _loaded(console, args, status.update)
        status.update("checking")
        failed = _examine(console, target, args)
        if not failed and args.speculative_config is not None:
            status.update("trying a few prompts")
            evidence = _probe(target, args, temperature=temperature, raw=raw)
            _print_acceptance(console, evidence)
    if failed:
        raise typer.Exit(FAILED)


def _loaded(console: Console, args: EngineArgs, say: Callable[[str], None]) -> Target:
    from services.cli.loading import load

    try:
        return load(args.target_spec(), say)
    except (ValueError, OSError) as error:
        _print_check(console, name="loads", state="fail", detail=str(error))
        raise typer.Exit(FAILED) from error


def _examine(console: Console, target: Target, args: EngineArgs) -> bool:
    """Prints every check as it is done; true where one failed."""
    from services.cli.checks import State, check_drafter, check_target

    failed = False
    for check in itertools.chain(check_target(target), check_drafter(args, target)):
        _print_check(console, name=check.name, state=check.state, detail=check.detail)
        failed |= check.state is State.FAIL
    return failed


def _probe(target: Target, args: EngineArgs, *, temperature: float, raw: bool) -> Evidence:
    from services.cli.acceptance_probe import probe
    from services.cli.drafter_origin import drafter_origins
    from services.offline import LLM

    assert args.speculative_config is not None
    origins = drafter_origins(args.speculative_config.drafter, target)
    foreign = [origin.model for origin in origins if origin.is_foreign_to(target)]
    with LLM.on(target, args) as llm:
        seen = probe(llm, args.speculative_config, temperature=temperature, raw=raw)
    return replace(seen, made_for=" and ".join(foreign))


def _print_check(console: Console, *, name: str, state: str, detail: str) -> None:
    mark, style = MARKS[state]
    console.print(
        Text.assemble((f" {mark} ", style), (f"{name:<22}", "bold"), " ".join(detail.split())), soft_wrap=True
    )


def _print_acceptance(console: Console, evidence: Evidence) -> None:
    from services.cli.diagnosis import likely_cause

    drafts = evidence.stats.speculation
    length = f"accepted length {drafts.accepted_length:.2f}"
    console.print(
        f"\n{evidence.method}: {length} in {drafts.num_drafts} drafts, {evidence.stats.steps} steps; "
        f"drafting took {evidence.draft_share:.0%} of the time",
        soft_wrap=True,
    )
    for position, rate in enumerate(drafts.acceptance_by_position, 1):
        console.print(Text.assemble(f"  {position:>3} ", ("█" * round(30 * rate), "green"), f" {rate:.0%}"))
    cause = likely_cause(evidence)
    if cause is not None:
        console.print(Text.assemble(("likely cause: ", "bold yellow"), cause), soft_wrap=True)
