"""app: the `paradraft` command."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from services.cli.bench import bench
from services.cli.cache import cache
from services.cli.data import data
from services.cli.doctor import doctor
from services.cli.generate import generate
from services.cli.models import models
from services.cli.serve import serve
from services.cli.train import train

app = typer.Typer(
    name="paradraft",
    help="Serve a language model faster, with exactly the text it would have written anyway.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve)
app.command()(generate)
app.command(context_settings={"allow_interspersed_args": False, "allow_extra_args": True})(bench)
app.command()(data)
app.command()(train)
app.add_typer(cache)
app.command()(models)
app.command()(doctor)


def _print_version(value: bool) -> None:  # noqa: FBT001  typer calls it so
    if value:
        typer.echo(f"paradraft {version('paradraft')}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
