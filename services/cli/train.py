"""paradraft train: weights of a drafter for a target, from the target's answers."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from drafters.training.recipe import METHODS, Recipe, make_recipe
from services.cli.failures import one_line_errors
from services.cli.help_texts import RECIPE_HELP, SITTING_HELP
from services.cli.options import Flag, engine_flags, with_options
from services.cli.values import given
from services.config import EngineArgs

PLOTS_HELP = "Draw loss and acceptance into training.png in --out, anew at each look."
TARGET_OPTIONS = ("dtype", "device", "threads", "revision")


def train_flags() -> list[Flag]:
    """The fields of Recipe but the method, of Sitting, and those keys of EngineArgs that say how a target is loaded."""
    hints, defaults = get_type_hints(Recipe), {field.name: str(field.default) for field in fields(Recipe)}
    return [
        *(
            Flag(name=name, kind=hints[name], help=text, panel="Recipe", default=defaults[name])
            for name, text in RECIPE_HELP.items()
        ),
        *(Flag(name=name, kind=float, help=text, panel="Sitting") for name, text in SITTING_HELP.items()),
        Flag(name="plots", kind=bool, help=PLOTS_HELP, panel="Sitting"),
        *(flag for flag in engine_flags() if flag.name in TARGET_OPTIONS),
    ]


@one_line_errors
@with_options(train_flags())
def train(
    *,
    method: Annotated[str, typer.Argument(metavar="METHOD", help=f"What to train: {' or '.join(METHODS)}.")],
    data: Annotated[Path, typer.Option(help="Answers of the target, .jsonl or .jsonl.gz, as `paradraft data` writes.")],
    out: Annotated[Path, typer.Option(help="Folder for the weights, where they come from, and what to resume from.")],
    target: Annotated[str, typer.Option(help="The model that the drafter is for.")] = "smollm2-135m",
    features: Annotated[
        Path | None, typer.Option(help="Folder that keeps what the target computes, for later epochs and runs.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, if there is one.")] = False,
    **options: Any,
) -> None:
    """Train a drafter for a target on the target's own answers.

    On several GPUs: torchrun --nproc-per-node N .venv/bin/paradraft train METHOD …
    """
    recipe = make_recipe(method, given(options, among=RECIPE_HELP))
    sizes = {"max_num_seqs": recipe.batch, "max_model_len": recipe.max_length}
    args = EngineArgs.model_validate({"model": target, **sizes, **given(options, among=TARGET_OPTIONS)})
    from transformers.utils import logging

    from drafters.training.plots import Plots
    from drafters.training.run import Sitting
    from services.cli.train_view import TrainView
    from services.training import TrainingOrder, run_training

    order = TrainingOrder(
        recipe=recipe,
        target=args.target_spec(),
        data=data,
        out=out,
        features=features,
        resume=resume,
        command=["paradraft", *sys.argv[1:]],
    )
    sitting = Sitting(**given(options, among=SITTING_HELP))
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers' own would tear ours
    with TrainView(Console(stderr=True, highlight=False), out=out, serve=_serving(target, method, out)) as view:
        run_training(order, sitting, Plots(out, view) if options["plots"] else view)


def _serving(target: str, method: str, out: Path) -> str:
    """The command that serves the target with the trained weights."""
    drafter = json.dumps({"method": method, "model": str(out)})
    return shlex.join(["paradraft", "serve", target, "--speculative-config", drafter])
