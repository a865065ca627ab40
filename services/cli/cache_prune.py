"""paradraft cache prune: draft files that are no longer wanted."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from services.cli.cache_cells import size
from services.cli.cache_options import Directory
from services.cli.failures import one_line_errors

if TYPE_CHECKING:
    from cache_service.storage.store import Store
    from cache_service.transfer.pruning import Wish

UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@one_line_errors
def prune(
    directory: Directory,
    *,
    budget_bytes: Annotated[
        int | None, typer.Option(min=0, help="Delete what was used least recently, beyond so many bytes.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="30d", help="Delete what was used last before that: 90m, 12h, 30d, 8w.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(metavar="ID", help="Only of this one; alone: all of it. The beginning will do.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only of this one; alone: all it has.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete drafts and give their bytes back.

    Not while a server writes to the directory: that keeps to its own budget.
    """
    if budget_bytes is None and older_than is None and namespace is None and tenant is None:
        raise ValueError("nothing says what to delete; give --budget-bytes, --older-than, --namespace or --tenant")
    from cache_service.storage.directory import find, namespaces
    from cache_service.storage.store import Store
    from cache_service.transfer.pruning import Wish

    namespaces(directory)  # refuses what is no directory of draft files before it becomes one
    wish = Wish(
        namespace=None if namespace is None else find(directory, namespace),
        tenant=tenant,
        unused_since=None if older_than is None else int((time.time() - seconds(older_than)) * 1e6),
        budget_bytes=budget_bytes,
    )
    with Store.open(directory) as store:
        _prune(store, wish, directory, yes=yes)


def seconds(age: str) -> float:
    """Of a number and m, h, d or w; ValueError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", age)
    if found is None:
        raise ValueError(f"--older-than {age!r} is no age; it looks like 90m, 12h, 30d or 8w")
    return float(found[1]) * UNITS[found[2]]


def _prune(store: Store, wish: Wish, directory: Path, *, yes: bool) -> None:
    from cache_service.transfer import pruning

    console = Console(stderr=True, highlight=False)
    rows = pruning.chosen(store, wish)
    num_records = pruning.count(rows)
    if not yes and num_records:
        what = f"delete {num_records:,} records of {size(pruning.size(rows))} in {directory}?"
        if not sys.stdin.isatty():
            raise ValueError(f"{what} give --yes where nobody can answer")
        if not typer.confirm(what, err=True):
            console.print("nothing was deleted")
            raise typer.Exit(1)
    done = pruning.prune(store, wish)
    freed = f", {size(done.freed_bytes)}{'' if done.records else ' of what was deleted before'} given back"
    console.print(
        f"{f'{done.records:,} records deleted' if done.records else 'no record to delete'}"
        f"{freed if done.freed_bytes > 0 else ''}; {size(store.num_bytes)} remain in {directory}",
        soft_wrap=True,
    )
