"""paradraft cache: the commands for draft files."""

from __future__ import annotations

import typer

from services.cli.cache_build import build
from services.cli.cache_inspect import inspect
from services.cli.cache_ls import ls
from services.cli.cache_prune import prune
from services.cli.cache_serve import serve
from services.cli.cache_transfer import export, import_

cache = typer.Typer(
    name="cache",
    help="Look after draft files: what texts went on with before, for the `cached` drafter.",
    no_args_is_help=True,
)
cache.command()(ls)
cache.command()(inspect)
cache.command()(build)
cache.command()(export)
cache.command("import")(import_)
cache.command()(prune)
cache.command()(serve)
