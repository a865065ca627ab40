"""Arguments and options that several of the cache commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory that `draft_files` of a drafter names.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, with everything that is known.")]
Only = Annotated[str | None, typer.Option(metavar="ID", help="Only this one; the beginning of what ls prints will do.")]
